// Who holds the memory now, and who held it at the peak: bytes of tensors and workspaces by tag.
// The counts are always on. The cost is four atomic operations in the life of a tensor, or seven
// if its tag changes, as that of activations and weights does.
//
//   profile::reset_memory_peak(device);
//   train_one_step();
//   std::cout << profile::memory_use(device).text();
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "lathe/core/config.h"
#include "lathe/core/device.h"
#include "lathe/core/hooks/memory_tag.h"

namespace lathe::profile {

/// Memory in bytes, as requested. Allocators round up, so blocks may hold more.
struct LATHE_API MemoryUse {
  int64_t in_use = 0, peak = 0;                   // peak: since the start, or reset_memory_peak()
  std::array<int64_t, kMemoryTags> now = {};      // in_use by tag
  std::array<int64_t, kMemoryTags> at_peak = {};  // peak by tag
  // What the device's allocator counts, rounding included; 0 for pinned memory.
  int64_t allocated = 0, peak_allocated = 0, reserved = 0;

  int64_t of(MemoryTag tag) const { return now[static_cast<size_t>(tag)]; }
  int64_t of_peak(MemoryTag tag) const { return at_peak[static_cast<size_t>(tag)]; }
  /// A table: a row for each tag that holds or held something, the sum, and the allocator's sizes.
  std::string text() const;
  /// "activations 1.5 GiB, weights 40 MiB", largest first; "nothing" if no tensor is alive.
  std::string holders() const;
};

/// The memory that tensors and workspaces hold on `device`.
///   pinned  true (only with the CPU): returns the counts of pinned host memory; the CPU's counts
///           with false leave pinned memory out
/// Each number was right at some moment during the call. The numbers fit together if no other
/// thread allocates meanwhile.
/// throws: std::bad_alloc.
LATHE_API MemoryUse memory_use(Device device = kCPU, bool pinned = false);

/// The text about `device` for the end of an error message: "tensors hold: weights 3 GiB, …". While
/// a LiveMemory (live_memory.h) records, it adds the largest tensors and where they were made.
/// throws: std::bad_alloc.
LATHE_API std::string who_holds(Device device, bool pinned);

/// Sets both peaks of `device`, of the tensors and of the allocator, to the bytes that are in use
/// now. `pinned` is as for memory_use().
LATHE_API void reset_memory_peak(Device device = kCPU, bool pinned = false);

/// { const CountedMemory held(bytes, device, tag); … }: counts memory that belongs to no tensor.
class LATHE_API CountedMemory {
 public:
  [[nodiscard]] CountedMemory(int64_t bytes, Device device, MemoryTag tag) noexcept;
  ~CountedMemory();
  CountedMemory(const CountedMemory&) = delete;
  CountedMemory& operator=(const CountedMemory&) = delete;

 private:
  const int64_t bytes_;
  const Device device_;
  const MemoryTag tag_;
};

namespace detail {
/// Adds `bytes` (negative: takes away) to what is held on `device` for `tag`.
void count_memory(int64_t bytes, Device device, bool pinned, MemoryTag tag) noexcept;
/// Moves bytes from one tag to another.
void move_memory(int64_t bytes, Device device, bool pinned, MemoryTag from, MemoryTag to) noexcept;
}  // namespace detail

}  // namespace lathe::profile
