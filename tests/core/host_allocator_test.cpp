// The host allocator: size classes, alignment, reuse, statistics, limits, faults, threads. The
// cases hold with the cache on and off (LATHE_NO_CACHE, sanitizer builds); those about the cache
// itself ask first.
#include "lathe/core/memory/host_allocator.h"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <latch>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "lathe/core/error.h"
#include "lathe/core/memory/block_pool.h"
#include "lathe/core/memory/host_range.h"
#include "lathe/core/memory/system_memory.h"

namespace lathe {
namespace {

constexpr size_t kPeakSlack = 16 << 10;  // of one thread
const bool kCaches = host_allocator().caches();

// Starts from an empty cache and restores the limits.
struct Clean {
  Clean() { host_allocator().empty_cache(); }
  ~Clean() {
    host_allocator().set_limit(0);
    host_allocator().set_cache_limit(system_memory::usable_bytes() / 2);
    host_allocator().empty_cache();
  }
};

TEST_CASE("size classes: ascending, reached by their own size, at most a quarter of waste") {
  for (int c = 0; c < kSizeClasses; ++c) {
    const size_t size = size_class_bytes(c);
    REQUIRE(size % 64 == 0);
    REQUIRE(size_class_of(size) == c);
    if (c > 0) {
      const size_t smaller = size_class_bytes(c - 1);
      REQUIRE(smaller < size);
      REQUIRE(size_class_of(smaller + 1) == c);
      REQUIRE((size - (smaller + 1) < 64 || 4 * (size - smaller) <= size));
    }
  }
  CHECK(size_class_of(0) == 0);
  CHECK(size_class_bytes(kSizeClasses - 1) == kLargestClassBytes);
  CHECK(size_class_bytes(size_class_of(4096)) == 4096);
}

TEST_CASE("host allocator: blocks are aligned, writable to the last byte and disjoint") {
  HostAllocator& host = host_allocator();
  const size_t sizes[] = {1,      8, 63, 64, 65, 1000, 4096, 4097, 100000, 1 << 20, (4 << 20) + 1,
                          9 << 20};
  std::vector<std::pair<void*, size_t>> blocks;
  for (int copy = 0; copy < 3; ++copy) {
    for (const size_t bytes : sizes) {
      void* block = host.allocate(bytes);
      CHECK(reinterpret_cast<uintptr_t>(block) % (bytes >= 4096 ? 4096 : 64) == 0);
      std::memset(block, static_cast<int>(blocks.size()), bytes);
      blocks.emplace_back(block, bytes);
    }
  }
  for (size_t i = 0; i < blocks.size(); ++i) {
    const auto* bytes = static_cast<const unsigned char*>(blocks[i].first);
    CHECK(bytes[0] == i);
    CHECK(bytes[blocks[i].second - 1] == i);
  }
  for (const auto& [block, bytes] : blocks) host.deallocate(block, bytes);
}

TEST_CASE("host allocator: the statistics follow every block") {
  HostAllocator& host = host_allocator();
  const Clean clean;
  host.reset_peak();
  const MemoryStats before = host.stats();
  CHECK(before.peak_allocated_bytes - before.allocated_bytes <= kPeakSlack);
  void* small = host.allocate(100);
  void* large = host.allocate(50000);
  MemoryStats now = host.stats();
  CHECK(now.allocated_bytes - before.allocated_bytes == 128 + 57344);
  CHECK(now.allocations - before.allocations == 2);
  CHECK(now.system_allocations > before.system_allocations);
  CHECK(now.reserved_bytes >= now.allocated_bytes);
  host.deallocate(large, 50000);
  host.deallocate(small, 100);
  now = host.stats();
  CHECK(now.allocated_bytes == before.allocated_bytes);
  CHECK(now.peak_allocated_bytes + kPeakSlack >= before.allocated_bytes + 128 + 57344);
  CHECK(now.peak_allocated_bytes <= before.allocated_bytes + 128 + 57344 + kPeakSlack);
  CHECK(now.cached_bytes() >= (kCaches ? 57344 : 0));
  host.empty_cache();
  CHECK(host.stats().reserved_bytes <= now.reserved_bytes - (kCaches ? 57344 : 0));
  host.reset_peak();
  CHECK(host.stats().peak_allocated_bytes <= before.allocated_bytes + kPeakSlack);
}

TEST_CASE("host allocator: a freed block serves the next request of its class") {
  if (!kCaches) return;
  HostAllocator& host = host_allocator();
  for (const auto& [first, second] :
       std::vector<std::pair<size_t, size_t>>{{90, 128}, {5000, 5100}, {9 << 20, (9 << 20) + 5}}) {
    void* block = host.allocate(first);
    host.deallocate(block, first);
    const uint64_t taken = host.stats().system_allocations;
    void* again = host.allocate(second);
    CHECK(again == block);
    CHECK(host.stats().system_allocations == taken);
    host.deallocate(again, second);
  }
}

TEST_CASE(
    "host allocator: the limit names its numbers, leaves everything as it was, and releases the "
    "cache first") {
  HostAllocator& host = host_allocator();
  const Clean clean;
  const size_t base = host.stats().reserved_bytes;
  host.set_limit(base + (5 << 20));  // memory is taken in steps of 2 MiB
  void* first = host.allocate(4 << 20);
  const MemoryStats before = host.stats();
  CHECK_THROWS_WITH_AS(host.allocate(2 << 20),
                       doctest::Contains("host memory: cannot allocate 2 MiB (allocated: "),
                       OutOfMemoryError);
  CHECK(host.stats().allocated_bytes == before.allocated_bytes);
  CHECK(host.stats().reserved_bytes == before.reserved_bytes);
  host.deallocate(first, 4 << 20);  // cached now: small blocks fit only if the cache gives it up
  std::vector<void*> others;
  for (int i = 0; i < 4; ++i) others.push_back(host.allocate(1 << 20));
  for (void* block : others) host.deallocate(block, 1 << 20);
  void* second = host.allocate(4 << 20);  // and the other way round
  host.deallocate(second, 4 << 20);
}

TEST_CASE(
    "host allocator: a large block serves smaller ones, and what they leave is joined again") {
  if (!kCaches) return;
  HostAllocator& host = host_allocator();
  const Clean clean;
  void* whole = host.allocate(40 << 20);
  host.deallocate(whole, 40 << 20);
  const uint64_t taken = host.stats().system_allocations;
  const size_t sizes[] = {3 << 20, (5 << 20) + 4097, 14 << 20, (9 << 20) - 1, 8 << 20};
  std::vector<std::pair<void*, size_t>> parts;
  for (const size_t bytes : sizes) {
    void* block = host.allocate(bytes);
    CHECK(reinterpret_cast<uintptr_t>(block) % 4096 == 0);
    std::memset(block, static_cast<int>(parts.size()) + 1, bytes);
    parts.emplace_back(block, bytes);
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto* bytes = static_cast<const unsigned char*>(parts[i].first);
    CHECK(bytes[0] == i + 1);
    CHECK(bytes[parts[i].second - 1] == i + 1);
  }
  for (const size_t i : {1, 3, 0, 4, 2}) host.deallocate(parts[i].first, parts[i].second);
  CHECK(host.allocate(40 << 20) == whole);
  CHECK(host.stats().system_allocations == taken);
  host.deallocate(whole, 40 << 20);
  const size_t reserved = host.stats().reserved_bytes;
  host.empty_cache();
  CHECK(host.stats().reserved_bytes + (40 << 20) <= reserved);
}

TEST_CASE(
    "host allocator: addresses that are limited are not reserved, and blocks split all the same") {
  if (!kCaches) return;
  std::atomic<size_t> taken{0};
  const auto take = [&](size_t bytes) {
    taken += bytes;
    return true;
  };
  rlimit old{};
  REQUIRE(getrlimit(RLIMIT_AS, &old) == 0);
  rlimit few = old;
  few.rlim_cur = std::min<rlim_t>(old.rlim_max, rlim_t{1} << 46);
  REQUIRE(setrlimit(RLIMIT_AS, &few) == 0);
  HostRange range(take, [&](size_t bytes) { taken -= bytes; });
  REQUIRE(setrlimit(RLIMIT_AS, &old) == 0);
  CHECK(range.virtual_memory() == nullptr);
  {
    BlockPool pool(range, {.alignment = 4096, .expandable = true});
    void* whole = pool.allocate(30 << 20, nullptr);
    CHECK(taken == 30 << 20);
    pool.deallocate(whole);
    void* part = pool.allocate(12 << 20, nullptr);
    void* other = pool.allocate(18 << 20, nullptr);
    CHECK(part == whole);
    CHECK(taken == 30 << 20);
    std::memset(other, 1, 18 << 20);
    pool.deallocate(part);
    pool.deallocate(other);
  }
  CHECK(taken == 0);
}

TEST_CASE("host allocator: sizes beyond any address space are out of memory") {
  CHECK_THROWS_AS(host_allocator().allocate(SIZE_MAX), OutOfMemoryError);
  CHECK_THROWS_AS(host_allocator().allocate(kLargestClassBytes + 1), OutOfMemoryError);
}

TEST_CASE("host allocator: an injected fault fails that allocation and no other") {
  HostAllocator& host = host_allocator();
  const MemoryStats before = host.stats();
  {
    const ArmedFault fault(host.fault(), 2);
    void* first = host.allocate(64);
    CHECK_THROWS_WITH_AS(host.allocate(1 << 20), doctest::Contains("cannot allocate 1 MiB"),
                         OutOfMemoryError);
    void* third = host.allocate(64);
    CHECK(host.fault().calls() == 3);
    host.deallocate(first, 64);
    host.deallocate(third, 64);
  }
  CHECK(host.stats().allocated_bytes == before.allocated_bytes);
}

TEST_CASE(
    "host allocator: when the system refuses, the cache is released and the system asked again") {
  if (!kCaches) return;
  HostAllocator& host = host_allocator();
  const Clean clean;
  host.deallocate(host.allocate(1 << 20), 1 << 20);
  CHECK(host.stats().cached_bytes() >= 1 << 20);
  {
    const ArmedFault once(system_memory::fault(), 1);
    void* block = host.allocate(2 << 20);
    CHECK(system_memory::fault().calls() == 2);
    host.deallocate(block, 2 << 20);
  }
  const size_t reserved = host.stats().reserved_bytes;
  {
    const ArmedFault always(system_memory::fault(), 1, FaultPoint::kForever);
    CHECK_THROWS_AS(host.allocate(8 << 20), OutOfMemoryError);
    CHECK(system_memory::fault().calls() == 2);
  }
  CHECK(host.stats().reserved_bytes <= reserved);
}

TEST_CASE("host allocator: the cache keeps to its limit") {
  if (!kCaches) return;
  HostAllocator& host = host_allocator();
  const Clean clean;
  const size_t base = host.stats().cached_bytes();
  host.set_cache_limit(3 << 20);
  std::vector<void*> blocks;
  for (int i = 0; i < 8; ++i) blocks.push_back(host.allocate(1 << 20));
  for (void* block : blocks) {
    host.deallocate(block, 1 << 20);
    CHECK(host.stats().cached_bytes() <= base + (3 << 20));
  }
}

TEST_CASE("host allocator: threads free each other's blocks and exit") {
  HostAllocator& host = host_allocator();
  const size_t before = host.stats().allocated_bytes;
  std::mutex mutex;
  std::vector<std::pair<void*, size_t>> shared;
  const auto work = [&](unsigned seed) {
    std::mt19937 random(seed);
    std::vector<std::pair<void*, size_t>> own;
    for (int i = 0; i < 4000; ++i) {
      const size_t bytes = random() % 20 == 0 ? 4097 + random() % 100000 : 1 + random() % 4096;
      void* block = host.allocate(bytes);
      std::memset(block, static_cast<int>(bytes % 251), bytes < 512 ? bytes : 512);
      own.emplace_back(block, bytes);
      if (own.size() < 64) continue;
      const std::lock_guard lock(
          mutex);  // hand the oldest to whoever comes next, take one from the others
      shared.push_back(own.front());
      own.erase(own.begin());
      std::swap(shared[random() % shared.size()], shared.back());
      const auto [taken, size] = shared.back();
      shared.pop_back();
      if (static_cast<unsigned char*>(taken)[0] != size % 251)
        FAIL_CHECK("a block changed its content");
      host.deallocate(taken, size);
    }
    for (const auto& [block, bytes] : own) host.deallocate(block, bytes);
  };
  for (int round = 0; round < 3;
       ++round) {  // later rounds live on the lists that earlier threads returned
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 4; ++t)
      threads.emplace_back(work, 4 * static_cast<unsigned>(round) + t);
    for (auto& thread : threads) thread.join();
  }
  for (const auto& [block, bytes] : shared) host.deallocate(block, bytes);
  CHECK(host.stats().allocated_bytes == before);
}

struct FreesLate {
  void* block = nullptr;
  ~FreesLate() {
    if (block != nullptr) host_allocator().deallocate(block, 200);
    host_allocator().deallocate(host_allocator().allocate(300), 300);
  }
};
thread_local FreesLate frees_late;

TEST_CASE("host allocator: memory may be freed while a thread's other objects are destroyed") {
  const size_t before = host_allocator().stats().allocated_bytes;
  std::thread([] {
    frees_late.block = nullptr;  // constructed before the thread's lists, so destroyed after them
    frees_late.block = host_allocator().allocate(200);
  }).join();
  CHECK(host_allocator().stats().allocated_bytes == before);
}

#if !defined(LATHE_TSAN)  // TSan does not follow threads that start after a fork
/// A child that ends by itself, with what `work` returns.
int end_of_child(int (*work)()) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::alarm(30);
    ::_exit(work());
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return status;
}

void use(size_t bytes) { host_allocator().deallocate(host_allocator().allocate(bytes), bytes); }

TEST_CASE("host allocator: in the child of a fork no lock of another thread stays held") {
#  if defined(LATHE_ASAN)
  if (!kCaches) {  // blocks are malloc's then, and AddressSanitizer's may find its lock held
    MESSAGE("not with AddressSanitizer's malloc");
    return;
  }
#  endif
  std::atomic<bool> over = false;
  std::vector<std::thread> busy;
  for (const size_t bytes : {size_t{64} << 10, size_t{2} << 20}) {  // the lists, the pool
    busy.emplace_back([&over, bytes] {
      while (!over) use(bytes);
    });
  }
  int bad = 0;
  for (int i = 0; i < 200 && bad == 0; ++i) {
    bad = end_of_child([] {
      for (const size_t bytes : {size_t{64} << 10, size_t{2} << 20}) use(bytes);
      return 0;
    });
  }
  over = true;
  for (std::thread& thread : busy) thread.join();
  CHECK(bad == 0);
}

TEST_CASE("host allocator: statistics go on in the child of a fork, whose threads are others") {
  std::latch used(4), over(1);
  std::vector<std::thread> others;
  for (int i = 0; i < 3; ++i) {
    others.emplace_back([&] {
      use(100);
      used.arrive_and_wait();
      over.wait();
    });
  }
  used.arrive_and_wait();
  const int bad = end_of_child([] {
    const MemoryStats before = host_allocator().stats();
    std::vector<std::thread> threads;  // on the stacks of the parent's threads
    for (int i = 0; i < 3; ++i) threads.emplace_back([] { use(100); });
    for (std::thread& thread : threads) thread.join();
    const MemoryStats after = host_allocator().stats();
    return after.allocated_bytes == before.allocated_bytes &&
                   after.allocations == before.allocations + 3
               ? 0
               : 1;
  });
  over.count_down();
  for (std::thread& thread : others) thread.join();
  CHECK(bad == 0);
}
#endif

TEST_CASE("allocator_for: the CPU has one, a GPU that is not there is named with the reason") {
  CHECK(&allocator_for(kCPU) == &host_allocator());
  const Device missing("cuda:99");
  if (cuda_is_available()) {
    CHECK_THROWS_WITH_AS(allocator_for(missing), doctest::Contains("no cuda:99"), DeviceError);
  } else {
    CHECK_THROWS_WITH_AS(allocator_for(missing), doctest::Contains("cuda:99"), NoCudaError);
  }
}

TEST_CASE("readable_bytes: two decimals at most") {
  CHECK(readable_bytes(0) == "0 bytes");
  CHECK(readable_bytes(1) == "1 byte");
  CHECK(readable_bytes(1023) == "1023 bytes");
  CHECK(readable_bytes(1536) == "1.5 KiB");
  CHECK(readable_bytes((uint64_t{3} << 30) + (uint64_t{215} << 20)) == "3.21 GiB");
  CHECK(readable_bytes(UINT64_MAX) == "16 EiB");
}

TEST_CASE("FaultPoint: fails the asked calls, counts, and is silent when unarmed") {
  FaultPoint point;
  CHECK_FALSE(point.hit());
  CHECK(point.calls() == 0);
  point.fail_at(2, 2);
  CHECK_FALSE(point.hit());
  CHECK(point.hit());
  CHECK(point.hit());
  CHECK_FALSE(point.hit());
  point.count();
  for (int i = 0; i < 5; ++i) CHECK_FALSE(point.hit());
  CHECK(point.calls() == 5);
  point.disarm();
  CHECK_FALSE(point.hit());
  CHECK(point.calls() == 5);
}

}  // namespace
}  // namespace lathe
