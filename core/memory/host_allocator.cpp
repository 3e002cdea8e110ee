// The host allocator: the lists and counters of each thread, the shared lists, the pool of large
// blocks, and the statistics.
#include "lathe/core/memory/host_allocator.h"

#include <pthread.h>

#include <algorithm>
#include <mutex>
#include <new>
#include <utility>

#include "lathe/core/ceil_div.h"
#include "lathe/core/cuda_backend.h"
#include "lathe/core/error.h"
#include "lathe/core/memory/block_pool.h"
#include "lathe/core/memory/cache_setting.h"
#include "lathe/core/memory/host_range.h"
#include "lathe/core/memory/system_memory.h"

namespace lathe {

namespace {

constexpr size_t kSmallBytes = 4096;  // blocks up to here go through the thread's own lists
constexpr int kSmallClasses = size_class_of(kSmallBytes) + 1;
constexpr size_t kListBytes = 1 << 20;  // blocks up to here stay whole, in lists by size
constexpr int kListClasses = size_class_of(kListBytes) + 1;
constexpr size_t kSlabBytes = 64 << 10;        // small blocks are cut from slabs of this size
constexpr size_t kThreadListBytes = 32 << 10;  // the most bytes in one list of one thread, and
constexpr size_t kThreadListBlocks = 128;      // the most blocks

constexpr int64_t kPendingBytes = 16 << 10;  // a thread adds to allocated_bytes_ from here on

// The most blocks of a class that a thread keeps. Half as many move at a time.
constexpr size_t thread_capacity(int size_class) {
  return std::min(kThreadListBlocks, kThreadListBytes / size_class_bytes(size_class));
}

// The size of a block as it is counted.
constexpr size_t counted_bytes(size_t bytes) {
  if (bytes > kListBytes) return round_up(bytes, system_memory::kPage);
  return size_class_bytes(size_class_of(bytes));
}

BlockPoolOptions pool_options() {
  return {.name = "host memory",
          .alignment = system_memory::kPage,
          .small_request = 64 << 10,  // a rest up to here stays with its block
          .small_segment = system_memory::kHugePage,
          .large_segment = system_memory::kHugePage,
          .own_segment = system_memory::kHugePage,
          .segment_step = system_memory::kHugePage,
          .expandable = true};
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

  static void hold_locks() noexcept;  // around fork()
  static void release_locks() noexcept;
  static void go_on_in_child() noexcept;
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

// No other thread is in the middle of a change while the process is copied: the child would wait
// for its locks for ever.
void ThreadLists::hold_locks() noexcept {
  HostAllocator& host = host_allocator();
  if (host.pool_ != nullptr) host.pool_->lock();
  host.mutex_.lock();
}

void ThreadLists::release_locks() noexcept {
  HostAllocator& host = host_allocator();
  host.mutex_.unlock();
  if (host.pool_ != nullptr) host.pool_->unlock();
}

// Only this thread lives on in the child, whose new threads get the memory of the others' lists.
void ThreadLists::go_on_in_child() noexcept {
  HostAllocator& host = host_allocator();
  for (const ThreadLists* t = host.threads_; t != nullptr; t = t->next) {
    if (t == &thread_lists) continue;
    host.allocations_ += t->allocations.load(std::memory_order_relaxed);
    host.add_allocated(t->pending_bytes.load(std::memory_order_relaxed));
  }
  host.threads_ = thread_lists.state == State::kLive ? &thread_lists : nullptr;
  thread_lists.next = thread_lists.previous = nullptr;
  release_locks();
}

HostAllocator::HostAllocator()
    : caches_(cache_is_wanted(kCacheByDefault)),
      cache_limit_bytes_(system_memory::usable_bytes() / 2) {
  if (!caches_) return;
  const auto take = [this](size_t bytes) {
    if (!add_reserved(bytes)) return false;
    pool_reserved_bytes_.fetch_add(bytes, std::memory_order_relaxed);
    system_allocations_.fetch_add(1, std::memory_order_relaxed);
    return true;
  };
  const auto give = [this](size_t bytes) {
    pool_reserved_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
    reserved_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  };
  range_ = new HostRange(take, give);
  pool_ = new BlockPool(*range_, pool_options());
  pool_->add_oom_callback([this](size_t) {
    const std::lock_guard lock(mutex_);
    return release_lists();
  });
}

// Never destroyed: static objects of the program may free tensors after our own statics would be
// gone.
HostAllocator& host_allocator() {
  static HostAllocator& instance = []() -> HostAllocator& {
    auto& made = *new HostAllocator;
    pthread_atfork(ThreadLists::hold_locks, ThreadLists::release_locks,
                   ThreadLists::go_on_in_child);
    return made;
  }();
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
  void* block = nullptr;
  if (bytes <= kSmallBytes) {
    block = thread_lists.allocate(size_class_of(bytes));
  } else if (bytes <= kListBytes) {
    block = allocate_from_list(size_class_of(bytes));
  } else {
    block = allocate_large(counted_bytes(bytes));
  }
  if (block != nullptr) thread_lists.count(static_cast<int64_t>(counted_bytes(bytes)));
  return block;
}

void* HostAllocator::allocate_from_list(int size_class) {
  const size_t size = size_class_bytes(size_class);
  {
    const std::lock_guard lock(mutex_);
    if (void* block = lists_[size_class].pop(size)) {
      listed_bytes_ -= size;
      return block;
    }
  }
  return reserve(size);
}

// Null if the pool has none: the caller says what this allocator holds, which is more than the
// pool knows.
void* HostAllocator::allocate_large(size_t bytes) {
  void* block = nullptr;
  try {
    block = pool_->allocate(bytes, nullptr);
  } catch (const OutOfMemoryError&) {
    return nullptr;
  } catch (const std::bad_alloc&) {  // what the pool notes about a block
    return nullptr;
  }
  system_memory::unpoison(block, bytes);
  pool_live_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  return block;
}

void* HostAllocator::allocate_uncached(size_t bytes) {
  const size_t size = counted_bytes(bytes);  // as with a cache
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
  const size_t size = counted_bytes(bytes);
  thread_lists.count(-static_cast<int64_t>(size));
  if (!caches_) {
    system_memory::release_plain(block);
    reserved_bytes_.fetch_sub(size, std::memory_order_relaxed);
    return;
  }
  const int size_class = size_class_of(bytes);
  if (bytes <= kSmallBytes) return thread_lists.deallocate(block, size_class);
  if (bytes > kListBytes) {
    system_memory::poison(block, size);
    pool_live_bytes_.fetch_sub(size, std::memory_order_relaxed);
    pool_->deallocate(block);
  }
  std::unique_lock lock(mutex_);
  if (bytes <= kListBytes) {
    lists_[size_class].push(block, size);
    listed_bytes_ += size;
  }
  const bool is_over = is_over_cache_limit();
  lock.unlock();
  if (is_over) empty_cache();
}

bool HostAllocator::is_over_cache_limit() const {
  const size_t reserved = pool_reserved_bytes_.load(std::memory_order_relaxed);
  const size_t live = pool_live_bytes_.load(std::memory_order_relaxed);
  const size_t cached = listed_bytes_ + (reserved > live ? reserved - live : 0);
  return cached > cache_limit_bytes_;
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

// True if there was something to release.
bool HostAllocator::release_lists() noexcept {
  for (int c = kSmallClasses; c < kListClasses; ++c) {
    const size_t size = size_class_bytes(c);
    while (void* block = lists_[c].pop(size)) {
      system_memory::release(block, size);
      reserved_bytes_.fetch_sub(size, std::memory_order_relaxed);
    }
  }
  return std::exchange(listed_bytes_, 0) > 0;
}

void HostAllocator::empty_cache() noexcept {
  if (pool_ != nullptr) {
    try {
      pool_->empty_cache();
    } catch (const std::bad_alloc&) {  // for cutting a free block: the rest stays cached
    }
  }
  const std::lock_guard lock(mutex_);
  release_lists();
}

void HostAllocator::set_limit(size_t bytes) {
  limit_bytes_.store(bytes, std::memory_order_relaxed);
}

void HostAllocator::set_cache_limit(size_t bytes) {
  std::unique_lock lock(mutex_);
  cache_limit_bytes_ = bytes;
  const bool is_over = is_over_cache_limit();
  lock.unlock();
  if (is_over) empty_cache();
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
