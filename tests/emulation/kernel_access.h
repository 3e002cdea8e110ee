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
// Page-locked memory of the host may be used, constants of the program may be read.
//
// The compiler announces the accesses of sources that lathe_watch_accesses() in sources.cmake
// names: clang those of 1, 2, 4, 8 and 16 bytes, without copies of whole structures. It does not announce those of the library's other sources, of which some inline functions
// may be compiled into kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "cuda_emulation.h"

namespace lathe::emulation {

/// How much is looked at. LATHE_EMULATED_WATCH=0, 1 (if it is not set) or 2.
enum class Watch { kNothing, kAccesses, kUnwritten };
/// For the launches to come. → what it was.
Watch set_watch(Watch wanted);

/// A launch on device memory whose kernels are watched, as long as it lives.
class WatchedLaunch {
 public:
  /// Where the arguments lie and what points to them: a kernel begins by reading these.
  WatchedLaunch(std::span<const std::byte> arguments, std::span<void* const> pointers);
  ~WatchedLaunch();
  WatchedLaunch(const WatchedLaunch&) = delete;
  WatchedLaunch& operator=(const WatchedLaunch&) = delete;
};

/// For the switches between threads of a block: whether the one that runs now is watched. Watching
/// stops.
bool pause_watch() noexcept;
void resume_watch(bool watched) noexcept;

/// Addresses of live memory that a kernel may use.
struct MemoryRange {
  uintptr_t begin = 0, end = 0;
  bool holds(uintptr_t at, size_t bytes) const { return at >= begin && at + bytes <= end; }
};
/// Of the block of device memory, or of page-locked memory of the host, that holds `at`; else
/// empty.
MemoryRange usable_memory(const void* at);
/// For messages: what is at an address that is in no such block.
const char* unusable_memory_text(const void* at);

}  // namespace lathe::emulation
