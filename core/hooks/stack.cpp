// Return addresses by the unwinder of C++ exceptions; names by the symbol tables that the dynamic
// linker knows, then by libdw (line_reader.h).
//
// Note [Stacks like the last one]
// Two ops that follow each other mostly have the same callers, and unwinding a frame takes far
// longer than reading a word. So each thread keeps its last stack: the return addresses, and where
// on the stack they lie. As soon as the unwinder meets one of these in its old place, and all those
// outside of it still stand in theirs, the rest of the stack is that of last time: what calls a
// frame is found by its return address and its place alone. Only a frame of variable size also has
// a register for that; where it differs, another word stands in the old place.
#include "lathe/core/hooks/stack.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <unwind.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <utility>

#include "lathe/core/format.h"
#include "lathe/core/hexadecimal.h"
#include "lathe/core/hooks/line_reader.h"

namespace lathe::profile {

namespace {

std::string demangled(const std::string& name) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), std::free);
  return status == 0 && text ? text.get() : name;
}

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

/// "program + 0x1234": the place of an address without a name.
std::string place_of(void* address) {
  Dl_info info{};
  if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) return "";
  const auto from = reinterpret_cast<uintptr_t>(address);
  return base_name(info.dli_fname) + " + " +
         hexadecimal(from - reinterpret_cast<uintptr_t>(info.dli_fbase));
}

// --- Note [Stacks like the last one] -------------------------------------------------------------

struct Return {
  void* address;
  void* const* slot;  // where it lies on the stack; null: somewhere else
};

struct Returns {
  std::array<Return, kMostFrames + 1> all;  // innermost first
  size_t count;
  bool whole;  // there was room for all of the stack
};

constinit thread_local Returns t_last = {};

/// True if each of them still lies in its slot. The slots may be any part of this thread's stack by
/// now, also one that a sanitizer watches.
[[gnu::noinline, gnu::no_sanitize_address, gnu::no_sanitize_thread]] bool in_their_slots(
    const Return* first, const Return* last) {
  for (; first != last; ++first) {
    if (first->slot == nullptr) return false;
    if (*static_cast<void* const volatile*>(first->slot) != first->address) return false;
  }
  return true;
}

struct Walk {
  explicit Walk(const Returns& last_) : last(last_) {
    fresh.count = 0;  // its frames are written before they are read: 2 KiB need no zeros
    fresh.whole = false;
  }

  const Returns& last;
  Returns fresh;     // the frames that are not the last stack's
  size_t at = 0;     // its first frame that may be met yet
  bool met = false;  // the frames outside of `fresh` are those of `last` from `at` on
};

_Unwind_Reason_Code note_frame(_Unwind_Context* context, void* data) {
  Walk& walk = *static_cast<Walk*>(data);
  const Returns& last = walk.last;
  Return frame{reinterpret_cast<void*>(_Unwind_GetIP(context)),
               reinterpret_cast<void* const*>(_Unwind_GetCFA(context)) - 1};
  if (frame.address == nullptr) return _URC_END_OF_STACK;
  walk.fresh.whole = walk.fresh.count < walk.fresh.all.size();
  if (!walk.fresh.whole) return _URC_END_OF_STACK;
  while (walk.at < last.count && std::less()(last.all[walk.at].slot, frame.slot)) ++walk.at;
  const Return* const rest = last.all.data() + walk.at;
  if (last.whole && walk.at < last.count && rest->slot == frame.slot &&
      rest->address == frame.address && in_their_slots(rest, last.all.data() + last.count)) {
    walk.met = true;
    return _URC_END_OF_STACK;
  }
  if (!in_their_slots(&frame, &frame + 1)) frame.slot = nullptr;
  walk.fresh.all[walk.fresh.count++] = frame;
  return _URC_NO_REASON;
}

/// The present stack from the function that calls this one, in t_last. Inlined: one frame less to
/// be unwound each time.
[[gnu::always_inline]] inline const Returns& present_stack() {
  Returns& last = t_last;
  Walk walk(last);
  _Unwind_Backtrace(note_frame, &walk);
  const size_t fresh = walk.fresh.count,
               kept = walk.met ? std::min(last.count - walk.at, last.all.size() - fresh) : 0;
  Return* const begin = last.all.data();
  std::memmove(begin + fresh, begin + walk.at, kept * sizeof(Return));
  std::copy_n(walk.fresh.all.data(), fresh, begin);
  last.whole = walk.met ? last.count - walk.at == kept : walk.fresh.whole;
  last.count = fresh + kept;
  return last;
}

}  // namespace

[[gnu::noinline]] std::vector<void*> call_stack(size_t limit) {
  const Returns& stack = present_stack();
  const Return* const end = stack.all.data() + stack.count;
  const Return* first =
      std::ranges::find(stack.all.data(), end, __builtin_return_address(0), &Return::address);
  if (first == end) first = std::min(stack.all.data() + 1, end);
  std::vector<void*> out(std::min(limit, static_cast<size_t>(end - first)));
  std::ranges::transform(first, first + out.size(), out.begin(), &Return::address);
  return out;
}

bool Frame::is_of_library() const {
  // "lathe::relu(…)", "lathe::Tensor lathe::(anonymous namespace)::from_input<…>(…)": the name may
  // follow a result type. The command is a user of the library.
  const size_t arguments = std::min(function.find('('), function.find('<'));
  const size_t space =
      arguments == std::string::npos ? std::string::npos : function.rfind(' ', arguments);
  const size_t begin = space == std::string::npos ? 0 : space + 1;
  const auto starts_with = [&](std::string_view prefix) {
    return std::string_view(function).substr(begin).starts_with(prefix);
  };
  if (starts_with("std::") || starts_with("__gnu_cxx::")) return true;  // between ours and a call
  return starts_with("lathe::") && !starts_with("lathe::cli::");
}

Frame frame_of(void* return_address) {
  // The call is before the address to which it returns.
  const uintptr_t call = reinterpret_cast<uintptr_t>(return_address) - 1;
  const std::vector<SourceLine> lines = lines_of(call);
  // The innermost line of the program: functions of the library that are inlined, such as
  // operator+, are not what it wrote. One without a name belongs to the one that it is inlined in.
  const SourceLine* found = &lines.back();
  std::string name = found->function;
  bool is_program = false;
  for (auto at = lines.rbegin(); at != lines.rend(); ++at) {
    if (!at->function.empty())
      is_program = !Frame{.function = demangled(at->function)}.is_of_library();
    if (!is_program || at->line == 0) continue;
    found = &*at;
    if (!at->function.empty()) name = at->function;
  }
  Frame frame{.function = std::move(name), .file = found->file, .line = found->line};
  Dl_info info{};
  if (frame.function.empty() && dladdr(reinterpret_cast<void*>(call), &info) != 0 &&
      info.dli_sname != nullptr) {
    frame.function = info.dli_sname;
  }
  if (!frame.function.empty()) frame.function = demangled(frame.function);
  return frame;
}

std::string user_call(std::span<void* const> stack) { return call_place(stack, "").call; }

CallPlace call_place(std::span<void* const> stack, std::string layer) {
  CallPlace place{.layer = std::move(layer), .call = {}, .file = {}};
  for (void* const address : stack) {
    Frame frame = frame_of(address);
    if (frame.is_of_library()) continue;
    if (frame.line > 0) {
      place.call = concat(base_name(frame.file), ":", frame.line,
                          frame.function.empty() ? "" : " (" + frame.function + ")");
    } else {
      place.call = frame.function.empty() ? place_of(address) : frame.function;
    }
    place.file = std::move(frame.file);
    place.line = frame.line;
    break;
  }
  return place;
}

std::string line_reader() { return line_library(); }

}  // namespace lathe::profile
