// What kernels read and write, looked at access by access. On a GPU a wrong one stops the kernel,
// or nobody notices it; here it is an error that names the kernel, the block and the thread:
// - CudaError: memory of the host; device memory outside a block that cudaMalloc gave, or given
//   back; memory of another thread; an address that is no multiple of what the type needs (only
//   where g++ compiles).
// - StateError: shared memory that another thread wrote, or read before this one writes, since the
//   last barrier of both (of the block, or of their warp; here a shuffle is one, which it is not on a
//   GPU); with Watch::kUnwritten also shared
//   memory that the block has not written. A kernel may load such a value if it makes nothing of
//   it, as some do for elements beyond an edge; it is NaN in every case.
// - StateError, with Watch::kRaces: device memory that another thread of the launch, or other work,
//   wrote or read, and nothing orders the two (memory_shadow.h). Of cuDNN's and cuBLAS's work
//   nothing is known.
// Page-locked memory of the host may be used, constants of the program may be read.
//
// The compiler announces the accesses of sources that lathe_watch_accesses() in sources.cmake
// names: clang those of 1, 2, 4, 8 and 16 bytes, without copies of whole structures; g++ all, but
// no store to where the same few instructions have loaded from (x += 1 is a load). It does not
// announce those of the library's other sources, of which some inline functions may be compiled
// into kernels.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "cuda_emulation.h"
#include "unseen.h"
#include "work_order.h"

namespace lathe::emulation {

/// How much is looked at. LATHE_EMULATED_WATCH=0, 1 (if it is not set), 2 or 3; both of the last
/// look at accesses too.
enum class Watch { kNothing, kAccesses, kUnwritten, kRaces };
/// For the launches to come. → what it was.
Watch set_watch(Watch wanted);

/// set_watch() for a scope.
class WatchScope {
 public:
  [[nodiscard]] explicit WatchScope(Watch wanted) : before_(set_watch(wanted)) {}
  ~WatchScope() { set_watch(before_); }
  WatchScope(const WatchScope&) = delete;
  WatchScope& operator=(const WatchScope&) = delete;

 private:
  const Watch before_;
};

/// A launch on device memory whose kernels are watched, as long as it lives.
class WatchedLaunch {
 public:
  /// Where the arguments of `kernel` lie and what points to them: it begins by reading these.
  WatchedLaunch(void (*kernel)(), std::span<const std::byte> arguments,
                std::span<void* const> pointers);
  ~WatchedLaunch();
  WatchedLaunch(const WatchedLaunch&) = delete;
  WatchedLaunch& operator=(const WatchedLaunch&) = delete;
};

/// Whether work has to be numbered as it is queued: Watch::kRaces.
bool finds_races() noexcept;
/// While it lives, this work runs.
class WorkScope {
 public:
  explicit WorkScope(const Work& work);
  ~WorkScope();
  WorkScope(const WorkScope&) = delete;
  WorkScope& operator=(const WorkScope&) = delete;
};
/// The thread that runs now makes a fence.
void note_fence() noexcept;
/// Of a copy, or of bytes that are set.   throws: StateError if it races with other work.
void note_access(const void* memory, size_t bytes, bool writes);

/// Notes, as long as it lives, how much memory each watched launch reads and writes: distinct
/// sectors of 32 bytes, the least that a GPU moves. One at a time.
class TrafficLog {
 public:
  static constexpr uintptr_t kSectorBytes = 32;
  struct Launch {
    void (*kernel)() = nullptr;
    int64_t read_bytes = 0, written_bytes = 0;  // of whole sectors
  };

  /// Whether the compiler announces the accesses of kernels, copies of structures among them.
  static bool sees_all() noexcept;

  TrafficLog();
  ~TrafficLog();
  TrafficLog(const TrafficLog&) = delete;
  TrafficLog& operator=(const TrafficLog&) = delete;

  /// In the order in which they ran.
  const std::vector<Launch>& launches() const { return launches_; }

  // For the emulation. A launch that was underway when the log began is not in it.
  void begin(void (*kernel)());
  void note(uintptr_t at, size_t bytes, bool writes);
  void end();

 private:
  struct Page {  // a bit for each of its sectors
    std::array<uint64_t, 2> read = {}, written = {};
  };
  static constexpr uintptr_t kPageBytes = 128 * kSectorBytes;

  std::vector<Launch> launches_;
  bool open_ = false;                          // the last of them is underway
  std::unordered_map<uintptr_t, Page> pages_;  // of the launch underway
  uintptr_t last_page_ = 0;
  Page* last_ = nullptr;
};

/// For the switches between threads of a block: whether the one that runs now is watched. Watching
/// stops.
bool pause_watch() noexcept;
void resume_watch(bool watched) noexcept;

/// Addresses of live memory that a kernel may use.
struct MemoryRange {
  uintptr_t begin = 0, end = 0;
  LATHE_UNSEEN bool holds(uintptr_t at, size_t bytes) const {
    return at >= begin && at + bytes <= end;
  }
};
/// Of the block of device memory, or of page-locked memory of the host, that holds `at`; else
/// empty.
MemoryRange usable_memory(const void* at);
/// For messages: what is at an address that is in no such block.
const char* unusable_memory_text(const void* at);

}  // namespace lathe::emulation
