// Return addresses by glibc's unwinder; names by the symbol tables that the dynamic linker knows,
// then by libdw (line_reader.h).
#include "lathe/core/profile/stack.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <utility>

#include "lathe/core/format.h"
#include "lathe/core/profile/line_reader.h"

namespace lathe::profile {

namespace {

std::string demangled(const std::string& name) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), std::free);
  return status == 0 && text ? text.get() : name;
}

std::string hex(uintptr_t value) {
  std::string digits;
  do {
    digits += "0123456789abcdef"[value % 16];
    value /= 16;
  } while (value != 0);
  std::reverse(digits.begin(), digits.end());
  return "0x" + digits;
}

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

/// "program + 0x1234": the place of an address without a name.
std::string place_of(void* address) {
  Dl_info info{};
  if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) return "";
  const auto from = reinterpret_cast<uintptr_t>(address);
  return base_name(info.dli_fname) + " + " +
         hex(from - reinterpret_cast<uintptr_t>(info.dli_fbase));
}

}  // namespace

[[gnu::noinline]] std::vector<void*> call_stack(size_t limit) {
  constexpr size_t kMost = 128, kOwn = 2;  // this function, and a sanitizer's in between
  std::array<void*, kMost> addresses;
  const int asked = static_cast<int>(std::min(limit, kMost - kOwn) + kOwn);
  const int found = std::max(backtrace(addresses.data(), asked), 0);
  void** const end = addresses.data() + found;
  void** first = std::find(addresses.data(), end, __builtin_return_address(0));
  if (first == end) first = std::min(addresses.data() + 1, end);
  return std::vector<void*>(first, std::min(first + limit, end));
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

std::optional<Frame> user_frame(std::span<void* const> stack) {
  for (void* const address : stack) {
    Frame frame = frame_of(address);
    if (!frame.is_of_library()) return frame;
  }
  return std::nullopt;
}

std::string user_call(std::span<void* const> stack) {
  for (void* const address : stack) {
    const Frame frame = frame_of(address);
    if (frame.is_of_library()) continue;
    if (frame.line > 0) {
      return concat(base_name(frame.file), ":", frame.line,
                    frame.function.empty() ? "" : " (" + frame.function + ")");
    }
    return frame.function.empty() ? place_of(address) : frame.function;
  }
  return "";
}

std::string line_reader() { return line_library(); }

}  // namespace lathe::profile
