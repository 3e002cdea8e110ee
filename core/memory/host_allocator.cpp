// The host allocator: the lists and counters of each thread, the shared lists, and the statistics.
#include "lathe/core/memory/host_allocator.h"

#include <algorithm>

#include "lathe/core/cuda_backend.h"
#include "lathe/core/error.h"
#include "lathe/core/memory/cache_setting.h"
#include "lathe/core/memory/system_memory.h"

namespace lathe {

namespace {

constexpr size_t kSmallBytes = 4096;  // blocks up to here go through the thread's own lists
constexpr int kSmallClasses = size_class_of(kSmallBytes) + 1;
constexpr size_t kSlabBytes = 64 << 10;        // small blocks are cut from slabs of this size
constexpr size_t kThreadListBytes = 32 << 10;  // the most bytes in one list of one thread, and
constexpr size_t kThreadListBlocks = 128;      // the most blocks

constexpr int64_t kPendingBytes = 16 << 10;  // a thread adds to allocated_bytes_ from here on

// The most blocks of a class that a thread keeps. Half as many move at a time.
constexpr size_t thread_capacity(int size_class) {
  return std::min(kThreadListBlocks, kThreadListBytes / size_class_bytes(size_class));
}

#if defined(LATHE_ASAN) || defined(LATHE_TSAN)
constexpr bool kCacheByDefault = false;
#else
constexpr bool kCacheByDefault = true;
#endif

}  // namespace

// One thread's free lists and counters. Constant-initialised and without a destructor, because
// other thread_local objects may free memory after the destructors of this thread have run.
// ReturnAtExit below gives the lists back. After that, and before the first use, all capacities are
// 0, which sends every call down the slow path.
struct ThreadLists {
  enum class State : uint8_t { kNew, kLive, kGone };

  FreeList lists[kSmallClasses];
  size_t capacity[kSmallClasses];
  // Only this thread writes these, and stats() reads them. So plain loads and stores are enough; a
  // shared counter would need a locked add.
  std::atomic<int64_t> pending_bytes;  // allocated - deallocated, not yet added to allocated_bytes_
  std::atomic<uint64_t> allocations;
  int64_t pending_limit;
  ThreadLists *next, *previous;  // in HostAllocator::threads_
  State state;

  void* allocate(int size_class) {
    if (void* block = lists[size_class].pop(size_class_bytes(size_class))) return block;
    return allocate_slow(size_class);
  }

  void deallocate(void* block, int size_class) noexcept {
    if (lists[size_class].size() >= capacity[size_class]) make_room(size_class);
    lists[size_class].push(block, size_class_bytes(size_class));
    if (state == State::kGone) host_allocator().take_back(lists[size_class], size_class, 1);
  }

  void count(int64_t bytes) {
    const int64_t pending = pending_bytes.load(std::memory_order_relaxed) + bytes;
    pending_bytes.store(pending, std::memory_order_relaxed);
    if (pending >= pending_limit || pending <= -pending_limit) flush_pending();
  }

  void count_allocation() {
    allocations.store(allocations.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  [[gnu::noinline]] void* allocate_slow(int size_class) {
    start();
    const size_t count = std::max<size_t>(1, capacity[size_class] / 2);
    if (!host_allocator().refill(lists[size_class], size_class, count)) return nullptr;
    return lists[size_class].pop(size_class_bytes(size_class));
  }

  [[gnu::noinline]] void make_room(int size_class) noexcept {
    start();
    if (lists[size_class].size() < capacity[size_class]) return;
    host_allocator().take_back(lists[size_class], size_class, capacity[size_class] / 2);
  }

  [[gnu::noinline]] void flush_pending() noexcept {
    start();
    host_allocator().add_allocated(pending_bytes.load(std::memory_order_relaxed));
    pending_bytes.store(0, std::memory_order_relaxed);
  }

  void start() noexcept;
  void finish() noexcept;
};

namespace {

constinit thread_local ThreadLists thread_lists{};

struct ReturnAtExit {
  bool used = false;
  ~ReturnAtExit() { thread_lists.finish(); }
};
thread_local ReturnAtExit return_at_exit;

}  // namespace

void ThreadLists::start() noexcept {
  if (state != State::kNew) return;
  state = State::kLive;
  for (int c = 0; c < kSmallClasses; ++c) capacity[c] = thread_capacity(c);
  pending_limit = kPendingBytes;
  return_at_exit.used = true;  // constructs it, so that its destructor runs
  HostAllocator& host = host_allocator();
  const std::lock_guard lock(host.mutex_);
  next = host.threads_;
  if (next != nullptr) next->previous = this;
  host.threads_ = this;
}

void ThreadLists::finish() noexcept {
  flush_pending();
  state = State::kGone;
  pending_limit = 0;
  HostAllocator& host = host_allocator();
  for (int c = 0; c < kSmallClasses; ++c) {
    capacity[c] = 0;
    host.take_back(lists[c], c, lists[c].size());
  }
  const std::lock_guard lock(host.mutex_);
  host.allocations_ += allocations.load(std::memory_order_relaxed);
  (previous != nullptr ? previous->next : host.threads_) = next;
  if (next != nullptr) next->previous = previous;
}

HostAllocator::HostAllocator()
    : caches_(cache_is_wanted(kCacheByDefault)),
      cache_limit_bytes_(system_memory::physical_bytes() / 2) {}

// Never destroyed: static objects of the program may free tensors after our own statics would be
// gone.
HostAllocator& host_allocator() {
  static HostAllocator& instance = *new HostAllocator;
  return instance;
}

Allocator& allocator_for(Device device) {
  return device.is_cpu() ? host_allocator() : cuda::device_allocator(device);
}

void* HostAllocator::allocate(size_t bytes) {
  void* block = nullptr;
  if (bytes <= kLargestClassBytes && !fault_.hit()) [[likely]] {
    block = caches_ ? allocate_cached(bytes) : allocate_uncached(bytes);
  }
  if (block == nullptr) [[unlikely]]
    throw_out_of_memory(bytes);
  thread_lists.count_allocation();
  return block;
}

void* HostAllocator::allocate_cached(size_t bytes) {
  const int size_class = size_class_of(bytes);
  const size_t size = size_class_bytes(size_class);
  void* block = nullptr;
  if (bytes <= kSmallBytes) {
    block = thread_lists.allocate(size_class);
  } else {
    {
      const std::lock_guard lock(mutex_);
      block = lists_[size_class].pop(size);
      if (block != nullptr) large_cached_bytes_ -= size;
    }
    if (block == nullptr) block = reserve(size);
  }
  if (block != nullptr) thread_lists.count(static_cast<int64_t>(size));
  return block;
}

void* HostAllocator::allocate_uncached(size_t bytes) {
  const size_t size = size_class_bytes(size_class_of(bytes));  // counted as with a cache
  if (!add_reserved(size)) return nullptr;
  void* block = system_memory::allocate_plain(std::max<size_t>(bytes, 1));
  if (block == nullptr) {
    reserved_bytes_.fetch_sub(size, std::memory_order_relaxed);
    return nullptr;
  }
  system_allocations_.fetch_add(1, std::memory_order_relaxed);
  thread_lists.count(static_cast<int64_t>(size));
  return block;
}

void HostAllocator::deallocate(void* block, size_t bytes) noexcept {
  const int size_class = size_class_of(bytes);
  const size_t size = size_class_bytes(size_class);
  thread_lists.count(-static_cast<int64_t>(size));
  if (!caches_) {
    system_memory::release_plain(block);
    reserved_bytes_.fetch_sub(size, std::memory_order_relaxed);
  } else if (bytes <= kSmallBytes) {
    thread_lists.deallocate(block, size_class);
  } else {
    const std::lock_guard lock(mutex_);
    lists_[size_class].push(block, size);
    large_cached_bytes_ += size;
    if (large_cached_bytes_ > cache_limit_bytes_) release_large_lists();
  }
}

// Moves up to `count` blocks, and at least one, from the shared list to a thread's. False: no
// memory.
bool HostAllocator::refill(FreeList& list, int size_class, size_t count) {
  const size_t size = size_class_bytes(size_class);
  std::unique_lock lock(mutex_);
  if (lists_[size_class].size() == 0) {
    lock.unlock();
    char* slab = static_cast<char*>(reserve(kSlabBytes));
    if (slab == nullptr) return false;
    lock.lock();
    for (size_t at = kSlabBytes / size; at-- > 0;) lists_[size_class].push(slab + at * size, size);
  }
  lists_[size_class].move_to(list, count, size);
  return true;
}

void HostAllocator::take_back(FreeList& list, int size_class, size_t count) noexcept {
  const std::lock_guard lock(mutex_);
  list.move_to(lists_[size_class], count, size_class_bytes(size_class));
}

// A new block from the system. If that fails, empties the cache and asks once more.
void* HostAllocator::reserve(size_t bytes) {
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (attempt == 1) empty_cache();
    if (!add_reserved(bytes)) continue;
    if (void* block = system_memory::allocate(bytes)) {
      system_allocations_.fetch_add(1, std::memory_order_relaxed);
      return block;
    }
    reserved_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  }
  return nullptr;
}

bool HostAllocator::add_reserved(size_t bytes) {
  const size_t limit = limit_bytes_.load(std::memory_order_relaxed);
  size_t reserved = reserved_bytes_.load(std::memory_order_relaxed);
  do {
    if (limit != 0 && (bytes > limit || reserved > limit - bytes)) return false;
  } while (!reserved_bytes_.compare_exchange_weak(reserved, reserved + bytes,
                                                  std::memory_order_relaxed));
  return true;
}

void HostAllocator::add_allocated(int64_t bytes) {
  const int64_t now = allocated_bytes_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  int64_t peak = peak_allocated_bytes_.load(std::memory_order_relaxed);
  while (now > peak &&
         !peak_allocated_bytes_.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
  }
}

void HostAllocator::release_large_lists() noexcept {
  for (int c = kSmallClasses; c < kSizeClasses; ++c) {
    const size_t size = size_class_bytes(c);
    while (void* block = lists_[c].pop(size)) {
      system_memory::release(block, size);
      reserved_bytes_.fetch_sub(size, std::memory_order_relaxed);
    }
  }
  large_cached_bytes_ = 0;
}

void HostAllocator::empty_cache() noexcept {
  const std::lock_guard lock(mutex_);
  release_large_lists();
}

void HostAllocator::set_limit(size_t bytes) {
  limit_bytes_.store(bytes, std::memory_order_relaxed);
}

void HostAllocator::set_cache_limit(size_t bytes) {
  const std::lock_guard lock(mutex_);
  cache_limit_bytes_ = bytes;
  if (large_cached_bytes_ > bytes) release_large_lists();
}

MemoryStats HostAllocator::stats() const {
  const std::lock_guard lock(mutex_);
  MemoryStats stats;
  int64_t allocated = allocated_bytes_.load(std::memory_order_relaxed);
  stats.allocations = allocations_;
  for (const ThreadLists* thread = threads_; thread != nullptr; thread = thread->next) {
    allocated += thread->pending_bytes.load(std::memory_order_relaxed);
    stats.allocations += thread->allocations.load(std::memory_order_relaxed);
  }
  const int64_t peak = peak_allocated_bytes_.load(std::memory_order_relaxed);
  stats.allocated_bytes = static_cast<size_t>(std::max<int64_t>(allocated, 0));
  stats.peak_allocated_bytes = static_cast<size_t>(std::max({allocated, peak, int64_t{0}}));
  stats.reserved_bytes = reserved_bytes_.load(std::memory_order_relaxed);
  stats.system_allocations = system_allocations_.load(std::memory_order_relaxed);
  return stats;
}

void HostAllocator::reset_peak() {
  peak_allocated_bytes_.store(allocated_bytes_.load(std::memory_order_relaxed),
                              std::memory_order_relaxed);
}

void HostAllocator::throw_out_of_memory(size_t bytes) const {
  const MemoryStats now = stats();
  const size_t limit = limit_bytes_.load(std::memory_order_relaxed);
  LATHE_FAIL(OutOfMemoryError, "host memory: cannot allocate ", readable_bytes(bytes),
             " (allocated: ", readable_bytes(now.allocated_bytes),
             ", cached: ", readable_bytes(now.cached_bytes()),
             ", limit: ", limit == 0 ? "none" : readable_bytes(limit), ")");
}

}  // namespace lathe
