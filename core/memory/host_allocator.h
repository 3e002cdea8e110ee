// The allocator of CPU tensors: keeps freed blocks for the next tensors.
//
// - Sizes up to 1 MiB are rounded up to a class (size_class.h), which adds at most a quarter.
// - Up to 4 KiB: each thread has short free lists of its own, which exchange blocks with shared
//   lists in batches. A block that another thread frees joins that thread's list. This memory (cut
//   from 64 KiB slabs) never returns to the system.
// - Up to 1 MiB: one shared list per class, under a lock.
// - Above 1 MiB: blocks are cut from one range of addresses and join again when they are freed
//   (block_pool.h over host_range.h). A training's large tensors have many sizes; memory that one
//   has freed serves tensors of other sizes, too. Sizes are rounded up to a page, memory is taken
//   in steps of 2 MiB.
// - When what is cached above 4 KiB exceeds the cache limit, or the system refuses memory, all of
//   it is returned to the system.
// - LATHE_NO_CACHE=1 in the environment at the first allocation switches to plain aligned_alloc and
//   free, so that memory checkers see every allocation. LATHE_NO_CACHE=0 keeps the cache in
//   sanitizer builds, where the default is no cache.
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

class BlockPool;
class HostRange;
struct ThreadLists;

/// What an allocator holds. Sizes are those of whole blocks, rounding included.
struct MemoryStats {
  size_t allocated_bytes = 0;       // in use by tensors
  size_t peak_allocated_bytes = 0;  // since the last reset_peak(); exact to 16 KiB per thread
  size_t reserved_bytes = 0;        // taken from the system
  uint64_t allocations = 0;         // calls of allocate() that succeeded
  uint64_t system_allocations = 0;  // times that memory was taken from the system

  size_t cached_bytes() const {
    return reserved_bytes > allocated_bytes ? reserved_bytes - allocated_bytes : 0;
  }
};

class LATHE_API HostAllocator final : public Allocator {
 public:
  /// Returns a block that is aligned to 64 bytes, or to a page if it has 4 KiB or more.
  void* allocate(size_t bytes) override;
  void deallocate(void* block, size_t bytes) noexcept override;

  /// The allocator's counts of bytes and blocks. Each number was right at some moment during the
  /// call. The numbers fit together if no other thread allocates meanwhile.
  MemoryStats stats() const;
  void reset_peak();

  /// Returns the cached blocks above 4 KiB to the system.
  void empty_cache() noexcept;

  /// Sets how many bytes the allocator may take from the system (0: no limit). Cached blocks above
  /// 4 KiB are returned before the limit makes an allocation fail. A limit below the bytes that are
  /// reserved now affects only further blocks.
  void set_limit(size_t bytes);

  /// Sets how many bytes of free blocks above 4 KiB may stay cached. Initially half of
  /// usable_memory().
  void set_cache_limit(size_t bytes);

  /// False if LATHE_NO_CACHE or a sanitizer turned the cache off.
  bool caches() const { return caches_; }

  /// After fault().fail_at(n), the n-th allocate() from then on throws OutOfMemoryError.
  FaultPoint& fault() { return fault_; }

 private:
  friend HostAllocator& host_allocator();
  friend struct ThreadLists;  // the lists and counters of one thread, in host_allocator.cpp
  HostAllocator();

  void* allocate_cached(size_t bytes);
  void* allocate_from_list(int size_class);
  void* allocate_large(size_t bytes);
  void* allocate_uncached(size_t bytes);
  bool refill(FreeList& list, int size_class, size_t count);
  void take_back(FreeList& list, int size_class, size_t count) noexcept;
  void* reserve(size_t bytes);
  bool add_reserved(size_t bytes);
  bool is_over_cache_limit() const;  // under mutex_
  void add_allocated(int64_t bytes);
  bool release_lists() noexcept;  // under mutex_
  [[noreturn]] void throw_out_of_memory(size_t bytes) const;

  const bool caches_;
  FaultPoint fault_;

  mutable std::mutex mutex_;  // guards what follows
  FreeList lists_[kSizeClasses];
  size_t listed_bytes_ = 0;  // in blocks above 4 KiB
  size_t cache_limit_bytes_;
  ThreadLists* threads_ = nullptr;  // of living threads, linked
  uint64_t allocations_ = 0;        // of threads that have ended

  // The blocks above 1 MiB, if caches_. The pool has a lock of its own, under which it asks the
  // range for memory; mutex_ is not held then.
  HostRange* range_ = nullptr;
  BlockPool* pool_ = nullptr;
  std::atomic<size_t> pool_reserved_bytes_{0};
  std::atomic<size_t> pool_live_bytes_{0};

  // Not guarded. Threads add their pending bytes to allocated_bytes_ from time to time.
  std::atomic<size_t> limit_bytes_{0};
  std::atomic<size_t> reserved_bytes_{0};
  std::atomic<uint64_t> system_allocations_{0};
  std::atomic<int64_t> allocated_bytes_{0};
  std::atomic<int64_t> peak_allocated_bytes_{0};
};

/// The process's one host allocator.
LATHE_API HostAllocator& host_allocator();

}  // namespace lathe
