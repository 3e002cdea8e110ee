// See kernel_access.h. The functions at the end are those that the compilers call: g++ with
// -fsanitize=kernel-address and -fsanitize=alignment, clang with
// -fsanitize-coverage=trace-loads,trace-stores.
#include "kernel_access.h"

#include <link.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "emulated_block.h"
#include "kernel_name.h"
#include "lathe/core/error.h"
#include "memory_shadow.h"

namespace lathe::emulation {
namespace {

constinit thread_local bool t_watched = false;  // this thread runs a kernel's code
bool g_watches = false;                         // the launch underway is watched
#if defined(LATHE_WATCHES_ACCESSES)
constexpr bool kCompilerAnnounces = true;
#else
constexpr bool kCompilerAnnounces = false;
#endif
Watch& watch() {
  static Watch wanted = [] {
    const char* text = std::getenv("LATHE_EMULATED_WATCH");
    return text == nullptr ? Watch::kAccesses : static_cast<Watch>(std::atoi(text));
  }();
  return wanted;
}
bool g_finds_unwritten = false;
MemoryRange g_arguments, g_pointers;
// What was used last: few kernels use more.
constexpr size_t kRecent = 6;
MemoryRange g_recent[kRecent];
size_t g_next_recent = 0;
TrafficLog* g_traffic = nullptr;
const Work* g_work = nullptr;  // that runs now; null: nobody numbered it
bool g_notes_memory = false;   // of the launch underway
MemoryShadow& memory_shadow() {
  static auto* const shadow = new MemoryShadow;  // static objects may give memory back after main
  return *shadow;
}

/// Of the program and its libraries: constants that kernels read are there.
const std::vector<MemoryRange>& loaded_segments() {
  static const std::vector<MemoryRange> segments = [] {
    std::vector<MemoryRange> found;
    dl_iterate_phdr(
        [](dl_phdr_info* module, size_t, void* out) {
          for (int i = 0; i < module->dlpi_phnum; ++i) {
            const ElfW(Phdr)& segment = module->dlpi_phdr[i];
            if (segment.p_type != PT_LOAD) continue;
            const uintptr_t begin = module->dlpi_addr + segment.p_vaddr;
            static_cast<std::vector<MemoryRange>*>(out)->push_back(
                {begin, begin + segment.p_memsz});
          }
          return 0;
        },
        &found);
    return found;
  }();
  return segments;
}

/// "stream 2", by the order in which streams were made, or "the default stream".
std::string stream_text(uint64_t stream) {
  return stream >> 63 != 0 ? std::string("the default stream") : concat("stream ", stream);
}

std::string hex(uintptr_t number) {
  char text[2 + 16 + 1];
  std::snprintf(text, sizeof text, "0x%zx", static_cast<size_t>(number));
  return text;
}

[[noreturn]] void stop_access(uintptr_t at, size_t bytes, bool writes, const char* what) {
  stop_thread([=] {
    LATHE_FAIL(CudaError, "kernel: ", thread_text(), writes ? " writes " : " reads ", bytes,
               " bytes at ", hex(at), ": ", what);
  });
}

/// The variable in shared memory at `offset`; null: there is none.
const SharedLayout::Part* part_at(size_t offset, size_t bytes) {
  const SharedLayout& layout = g_shared_layout;
  for (size_t i = 0; i < layout.count; ++i) {
    const SharedLayout::Part& part = layout.parts[i];
    if (offset >= part.offset && offset + bytes <= part.offset + part.bytes) return &part;
  }
  return nullptr;
}

[[noreturn, gnu::noinline]] void stop_shared(const SharedLayout::Part& part, size_t offset,
                                             bool writes, SharedShadow::Finding found) {
  stop_thread([&part, offset, writes, found] {
    const std::string place = concat(part.name, ", byte ", offset - part.offset);
    const std::string does = writes ? " writes " : " reads ";
    if (found.fault == SharedShadow::Fault::kNeverWritten) {
      LATHE_FAIL(StateError, "kernel: ", thread_text(), does, place,
                 ": shared memory that its block has not written");
    }
    LATHE_FAIL(StateError, "kernel: ", thread_text(), does, place, ": thread ", found.other,
               found.other_writes ? " wrote" : " read", " it, and no barrier is between the two");
  });
}

[[gnu::noinline]] void check_shared(size_t offset, size_t bytes, bool writes, bool atomic,
                                    uintptr_t at) {
  const SharedLayout::Part* const part = part_at(offset, bytes);
  if (part == nullptr) stop_access(at, bytes, writes, "shared memory beyond its variables");
  const Fiber& fiber = g_block->fibers[g_block->current];
  const Visitor visitor{static_cast<unsigned>(g_block->current), fiber.block_barriers,
                        fiber.warp_barriers};
  SharedShadow& shadow = g_block->shadow;
  const auto found =
      writes ? shadow.write(offset, bytes, visitor, atomic) : shadow.read(offset, bytes, visitor);
  const bool is_fault = found.fault == SharedShadow::Fault::kRace ||
                        (found.fault == SharedShadow::Fault::kNeverWritten && g_finds_unwritten);
  if (is_fault) stop_shared(*part, offset, writes, found);
}

uint32_t number_of_block() {
  const Position& at = g_block->fibers[g_block->current].position;
  return (at.block.z * at.grid_size.y + at.block.y) * at.grid_size.x + at.block.x;
}

/// "thread 3 of block 7 of KERNEL, stream 2"; streams are numbered as they are made.
std::string text_of(const MemoryShadow::Finding& other) {
  const std::string who =
      other.kernel == nullptr
          ? std::string("a copy")
          : concat("thread ", other.thread, " of block ", other.block,
                   other.same_work ? std::string() : concat(" of ", kernel_name(other.kernel)));
  if (other.same_work) return who;
  return concat(who, " on ", stream_text(other.stream));
}

std::string race_text(uintptr_t at, size_t bytes, bool writes, const MemoryShadow::Finding& other) {
  const MemoryRange block = usable_memory(reinterpret_cast<const void*>(at));
  return concat(writes ? " writes " : " reads ", bytes, " bytes at ", hex(at), ", byte ",
                at - block.begin, " of a block of ", block.end - block.begin, ": ", text_of(other),
                other.writes ? " wrote" : " read", " them, and nothing orders the two");
}

void check_race(uintptr_t at, size_t bytes, bool writes, bool atomic) {
  const Fiber& fiber = g_block->fibers[g_block->current];
  const uint32_t block = number_of_block();
  const auto found = memory_shadow().access(
      at, bytes, writes, atomic,
      {block, static_cast<uint16_t>(g_block->current), static_cast<uint16_t>(fiber.block_barriers),
       static_cast<uint16_t>(fiber.warp_barriers)});
  if (!found) {
    if (atomic) memory_shadow().atomic(block, at);
    return;
  }
  stop_thread([=, other = *found] {
    const std::string mine =
        other.same_work ? std::string() : concat(" on ", stream_text(g_work->stream));
    LATHE_FAIL(StateError, "kernel: ", thread_text(), mine, race_text(at, bytes, writes, other));
  });
}

bool on_another_stack(uintptr_t at) {
  for (const Fiber& fiber : std::span(g_block->fibers, g_block->count)) {
    if (at - reinterpret_cast<uintptr_t>(fiber.stack) < kStackBytes) return true;
  }
  return false;
}

/// In the program or a library it has loaded: constants, and what a sanitizer looks up.
bool is_of_program(uintptr_t at, size_t bytes) {
  const auto holds = [=](const MemoryRange& segment) { return segment.holds(at, bytes); };
  return std::ranges::any_of(loaded_segments(), holds);
}

/// Memory that was not used lately.
void check_elsewhere(uintptr_t at, size_t bytes, bool writes) {
  const MemoryRange found = usable_memory(reinterpret_cast<const void*>(at));
  if (found.holds(at, bytes)) {
    g_recent[g_next_recent++ % kRecent] = found;
    return;
  }
  if (!writes && is_of_program(at, bytes)) return;
  stop_access(at, bytes, writes,
              on_another_stack(at) ? "memory of another thread"
                                   : unusable_memory_text(reinterpret_cast<const void*>(at)));
}

/// Of an access to memory of the device, or to what is no memory of a kernel.
[[gnu::noinline]] void check_memory(uintptr_t at, size_t bytes, bool writes, bool atomic,
                                    bool known) {
  if (!known) check_elsewhere(at, bytes, writes);
  if (g_traffic != nullptr) g_traffic->note(at, bytes, writes);
  if (g_notes_memory) check_race(at, bytes, writes, atomic);
}

/// Makes no frame that AddressSanitizer would have to prepare: most accesses end here.
[[gnu::noinline]] LATHE_UNSEEN void check_watched(uintptr_t at, size_t bytes, bool writes,
                                                  bool atomic) {
  const auto stack = reinterpret_cast<uintptr_t>(g_block->fibers[g_block->current].stack);
  if (at - stack < kStackBytes) return;
  const auto shared = reinterpret_cast<uintptr_t>(g_block->shared.at(0));
  const bool is_shared = at - shared < SharedMemory::kRoomBytes;
  bool known = false;
  if (!is_shared) {
    if (g_arguments.holds(at, bytes) || g_pointers.holds(at, bytes)) return;
    if (g_must_wait && !g_block->fibers[g_block->current].after_previous) {
      t_watched = false;
      if (writes || !is_of_program(at, bytes))
        stop_access(at, bytes, writes, "before after_previous_kernel(): the kernel before may run");
      t_watched = true;
      return;
    }
    for (size_t i = 0; i < kRecent; ++i) known = known || g_recent[i].holds(at, bytes);
    if (known && g_traffic == nullptr && !g_notes_memory) return;
  }
  t_watched = false;  // of what the checks themselves read
  if (is_shared) {
    check_shared(at - shared, bytes, writes, atomic, at);
  } else {
    check_memory(at, bytes, writes, atomic, known);
  }
  t_watched = true;
}

LATHE_UNSEEN void check_access(uintptr_t at, size_t bytes, bool writes, bool atomic = false) {
  if (t_watched) check_watched(at, bytes, writes, atomic);
}

#if defined(LATHE_WATCHES_ACCESSES) && !defined(__clang__)
template <size_t Bytes>
void check_whole(const void* address, bool writes) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  constexpr size_t kAlignment = Bytes == 16 ? 8 : Bytes;  // g++ joins two accesses of 8 bytes
  if (t_watched && at % kAlignment != 0) {
    pause_watch();
    stop_access(at, Bytes, writes, "the address is not aligned");
  }
  check_access(at, Bytes, writes);
}

void check_alignment(const char* file, unsigned line, const char* type, size_t alignment,
                     uintptr_t at) {
  if (!t_watched || at % alignment == 0) return;
  pause_watch();
  stop_thread([=] {
    LATHE_FAIL(CudaError, "kernel: ", thread_text(), " uses ", hex(at), " as ", type,
               ", which needs a multiple of ", alignment, " (", file, ":", int64_t{line}, ")");
  });
}
#elif defined(LATHE_WATCHES_ACCESSES)
template <size_t Bytes>
LATHE_UNSEEN void check_part(const void* address, bool writes) {
  check_access(reinterpret_cast<uintptr_t>(address), Bytes, writes);
}
#endif

MemoryRange range_of(const void* begin, size_t bytes) {
  const auto at = reinterpret_cast<uintptr_t>(begin);
  return {at, at + bytes};
}

}  // namespace

WatchedLaunch::WatchedLaunch(void (*kernel)(), std::span<const std::byte> arguments,
                             std::span<void* const> pointers) {
  if (g_traffic != nullptr) g_traffic->begin(kernel);
  g_watches = kCompilerAnnounces && watch() != Watch::kNothing;
  g_finds_unwritten = watch() == Watch::kUnwritten;
  g_notes_memory = g_watches && finds_races() && g_work != nullptr;
  if (g_notes_memory) memory_shadow().begin(*g_work, kernel);
  g_arguments = range_of(arguments.data(), arguments.size_bytes());
  g_pointers = range_of(pointers.data(), pointers.size_bytes());
  std::ranges::fill(g_recent, MemoryRange{});
}
WatchedLaunch::~WatchedLaunch() {
  g_watches = g_notes_memory = false;
  if (g_traffic != nullptr) g_traffic->end();
}

bool TrafficLog::sees_all() noexcept {
#if defined(__clang__)
  return false;
#else
  return kCompilerAnnounces;
#endif
}

TrafficLog::TrafficLog() { g_traffic = this; }
TrafficLog::~TrafficLog() { g_traffic = nullptr; }

void TrafficLog::begin(void (*kernel)()) {
  launches_.push_back({kernel});
  pages_.clear();
  last_ = nullptr;
  open_ = true;
}

void TrafficLog::note(uintptr_t at, size_t bytes, bool writes) {
  if (!open_) return;
  for (uintptr_t sector = at / kSectorBytes; sector <= (at + bytes - 1) / kSectorBytes; ++sector) {
    const uintptr_t page = sector * kSectorBytes / kPageBytes, bit = sector % 128;
    if (last_ == nullptr || page != last_page_) {
      last_ = &pages_[page];  // elements of this map do not move
      last_page_ = page;
    }
    (writes ? last_->written : last_->read)[bit / 64] |= uint64_t{1} << bit % 64;
  }
}

void TrafficLog::end() {
  if (!std::exchange(open_, false)) return;
  const auto bytes = [](const std::array<uint64_t, 2>& bits) {
    return static_cast<int64_t>(kSectorBytes) * (std::popcount(bits[0]) + std::popcount(bits[1]));
  };
  for (const auto& [number, page] : pages_) {
    launches_.back().read_bytes += bytes(page.read);
    launches_.back().written_bytes += bytes(page.written);
  }
}

Watch set_watch(Watch wanted) {
  if (finds_races() != (wanted == Watch::kRaces)) memory_shadow().clear();
  return std::exchange(watch(), wanted);
}

bool finds_races() noexcept { return kCompilerAnnounces && watch() == Watch::kRaces; }
WorkScope::WorkScope(const Work& work) { g_work = &work; }
WorkScope::~WorkScope() { g_work = nullptr; }

LATHE_UNSEEN void note_fence() noexcept {
  if (!t_watched || !g_notes_memory) return;
  const bool before = pause_watch();
  memory_shadow().fence(number_of_block());
  resume_watch(before);
}

void note_access(const void* memory, size_t bytes, bool writes) {
  if (!finds_races() || g_work == nullptr) return;
  const auto at = reinterpret_cast<uintptr_t>(memory);
  memory_shadow().begin(*g_work, nullptr);
  const auto found = memory_shadow().access(at, bytes, writes, false, {});
  if (!found) return;
  LATHE_FAIL(StateError, "a copy on ", stream_text(g_work->stream),
             race_text(at, bytes, writes, *found));
}

LATHE_UNSEEN void watch_kernel(bool runs) noexcept { t_watched = runs && g_watches; }
LATHE_UNSEEN bool pause_watch() noexcept {
  const bool before = t_watched;
  t_watched = false;
  return before;
}
LATHE_UNSEEN void resume_watch(bool watched) noexcept { t_watched = watched; }

LATHE_UNSEEN void before_atomic(const void* address, size_t bytes) noexcept {
  give_way();  // first: what is noted is the order in which they happen
  check_access(reinterpret_cast<uintptr_t>(address), bytes, true, true);
}

}  // namespace lathe::emulation

// What the compilers call. The first names are g++'s, whose accesses of 2, 4, 8 and 16 bytes are of
// types that are aligned so.
#if defined(LATHE_WATCHES_ACCESSES) && !defined(__clang__)
extern "C" {
void __asan_load1_noabort(void* at) { lathe::emulation::check_whole<1>(at, false); }
void __asan_load2_noabort(void* at) { lathe::emulation::check_whole<2>(at, false); }
void __asan_load4_noabort(void* at) { lathe::emulation::check_whole<4>(at, false); }
void __asan_load8_noabort(void* at) { lathe::emulation::check_whole<8>(at, false); }
void __asan_load16_noabort(void* at) { lathe::emulation::check_whole<16>(at, false); }
void __asan_store1_noabort(void* at) { lathe::emulation::check_whole<1>(at, true); }
void __asan_store2_noabort(void* at) { lathe::emulation::check_whole<2>(at, true); }
void __asan_store4_noabort(void* at) { lathe::emulation::check_whole<4>(at, true); }
void __asan_store8_noabort(void* at) { lathe::emulation::check_whole<8>(at, true); }
void __asan_store16_noabort(void* at) { lathe::emulation::check_whole<16>(at, true); }
void __asan_loadN_noabort(void* at, size_t bytes) {
  lathe::emulation::check_access(reinterpret_cast<uintptr_t>(at), bytes, false);
}
void __asan_storeN_noabort(void* at, size_t bytes) {
  lathe::emulation::check_access(reinterpret_cast<uintptr_t>(at), bytes, true);
}
void __asan_handle_no_return() {}
void __asan_before_dynamic_init(const char*) {}
void __asan_after_dynamic_init() {}

/// As UndefinedBehaviorSanitizer's compiler makes it, for each place that follows a pointer.
struct LathePointerUse {
  const char* file;
  uint32_t line, column;
  const struct {
    uint16_t kind, info;
    char name[1];
  } * type;
  unsigned char log_alignment, kind;
};
void __ubsan_handle_type_mismatch_v1(const LathePointerUse* use, uintptr_t at) {
  lathe::emulation::check_alignment(use->file, use->line, use->type->name,
                                    size_t{1} << use->log_alignment, at);
}
}
#elif defined(LATHE_WATCHES_ACCESSES)
extern "C" {
LATHE_UNSEEN void __sanitizer_cov_load1(uint8_t* at) { lathe::emulation::check_part<1>(at, false); }
LATHE_UNSEEN void __sanitizer_cov_load2(uint16_t* at) {
  lathe::emulation::check_part<2>(at, false);
}
LATHE_UNSEEN void __sanitizer_cov_load4(uint32_t* at) {
  lathe::emulation::check_part<4>(at, false);
}
LATHE_UNSEEN void __sanitizer_cov_load8(uint64_t* at) {
  lathe::emulation::check_part<8>(at, false);
}
LATHE_UNSEEN void __sanitizer_cov_load16(__int128* at) {
  lathe::emulation::check_part<16>(at, false);
}
LATHE_UNSEEN void __sanitizer_cov_store1(uint8_t* at) { lathe::emulation::check_part<1>(at, true); }
LATHE_UNSEEN void __sanitizer_cov_store2(uint16_t* at) {
  lathe::emulation::check_part<2>(at, true);
}
LATHE_UNSEEN void __sanitizer_cov_store4(uint32_t* at) {
  lathe::emulation::check_part<4>(at, true);
}
LATHE_UNSEEN void __sanitizer_cov_store8(uint64_t* at) {
  lathe::emulation::check_part<8>(at, true);
}
LATHE_UNSEEN void __sanitizer_cov_store16(__int128* at) {
  lathe::emulation::check_part<16>(at, true);
}
/// The compiler announces accesses only beside some other measure of coverage: this one does least.
__attribute__((weak)) void __sanitizer_cov_bool_flag_init(bool*, bool*) {}
}
#endif
