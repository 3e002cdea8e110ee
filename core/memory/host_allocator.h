// The allocator of CPU tensors: keeps freed blocks for the next tensor of about the same size.
//
// - Every size is rounded up to a class (core/memory/size_class.h), so at most a quarter is waste.
// - Up to 4 KiB: each thread has short free lists of its own; they exchange blocks with shared ones
// in batches. A block
//   freed by another thread joins that thread's list. This memory (cut from 64 KiB slabs) is kept
//   for good.
// - Above: one shared list per class under a lock. When the lists hold more than the cache limit,
// or the system
//   refuses memory, all of them are returned to it.
// - LATHE_NO_CACHE=1 in the environment at the first allocation switches to plain aligned_alloc and
// free, which memory
//   checkers can watch; LATHE_NO_CACHE=0 keeps the cache in sanitizer builds, where no cache is the
//   default.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "lathe/core/allocator.h"
#include "lathe/core/fault.h"
#include "lathe/core/memory/free_list.h"
#include "lathe/core/memory/size_class.h"

namespace lathe {

struct ThreadLists;

/// What an allocator holds. Sizes are those of whole blocks, rounding included.
struct MemoryStats {
  size_t allocated_bytes = 0;       // in the hands of tensors
  size_t peak_allocated_bytes = 0;  // its maximum since the last reset_peak(), to 16 KiB per thread
  size_t reserved_bytes = 0;        // taken from the system
  uint64_t allocations = 0;         // calls of allocate() that succeeded
  uint64_t system_allocations = 0;  // how many blocks were taken from the system

  size_t cached_bytes() const {
    return reserved_bytes > allocated_bytes ? reserved_bytes - allocated_bytes : 0;
  }
};

class LATHE_API HostAllocator final : public Allocator {
 public:
  /// Blocks are aligned to 64 bytes, from 4 KiB on to a page.
  void* allocate(size_t bytes) override;
  void deallocate(void* block, size_t bytes) noexcept override;

  /// A snapshot while no other thread allocates; otherwise each number is right at some moment of
  /// the call.
  MemoryStats stats() const;
  void reset_peak();

  /// Returns the cached blocks above 4 KiB to the system.
  void empty_cache() noexcept;

  /// The most bytes to take from the system (0: no limit). Blocks above 4 KiB are given back before
  /// the limit makes an allocation fail. A limit below what is reserved now holds for further
  /// blocks only.
  void set_limit(size_t bytes);

  /// The most bytes that the lists above 4 KiB may hold. At first half of the machine's memory.
  void set_cache_limit(size_t bytes);

  /// False if LATHE_NO_CACHE or a sanitizer turned the cache off.
  bool caches() const { return caches_; }

  /// Fails the n-th allocate() with OutOfMemoryError.
  FaultPoint& fault() { return fault_; }

 private:
  friend HostAllocator& host_allocator();
  friend struct ThreadLists;  // the lists and counters of one thread, in host_allocator.cpp
  HostAllocator();

  void* allocate_cached(size_t bytes);
  void* allocate_uncached(size_t bytes);
  bool refill(FreeList& list, int size_class, size_t count);
  void take_back(FreeList& list, int size_class, size_t count) noexcept;
  void* reserve(size_t bytes);
  bool add_reserved(size_t bytes);
  void add_allocated(int64_t bytes);
  void release_large_lists() noexcept;  // under mutex_
  [[noreturn]] void throw_out_of_memory(size_t bytes) const;

  const bool caches_;
  FaultPoint fault_;

  mutable std::mutex mutex_;  // guards what follows
  FreeList lists_[kSizeClasses];
  size_t large_cached_bytes_ = 0;
  size_t cache_limit_bytes_;
  ThreadLists* threads_ = nullptr;  // those alive, linked
  uint64_t allocations_ = 0;        // of threads that are gone

  // Not guarded. Threads add to allocated_bytes_ what they did not keep to themselves.
  std::atomic<size_t> limit_bytes_{0};
  std::atomic<size_t> reserved_bytes_{0};
  std::atomic<uint64_t> system_allocations_{0};
  std::atomic<int64_t> allocated_bytes_{0};
  std::atomic<int64_t> peak_allocated_bytes_{0};
};

/// The process's one host allocator.
LATHE_API HostAllocator& host_allocator();

}  // namespace lathe
