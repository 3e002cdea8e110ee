// Several threads on one pool; for ThreadSanitizer, and for the invariants afterwards.
#include <atomic>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "block_pool_fixture.h"
#include "lathe/core/error.h"

namespace lathe {
namespace {

constexpr int kThreads = 4, kSteps = 3000;

// Threads allocate, hand blocks to each other, share them with other streams, empty the cache, read
// statistics and snapshots; one captures graphs into a private pool meanwhile.
void run_threads(const BlockPoolOptions& options) {
  PoolFixture f(options, 768 * kKiB);
  BlockPool& pool = *f.pool;
  std::mutex mutex;
  std::vector<std::pair<void*, size_t>> shared;
  std::atomic<int> callbacks = 0;
  pool.add_oom_callback([&](size_t) {
    ++callbacks;
    std::pair<void*, size_t> victim{};
    const std::lock_guard lock(mutex);
    if (shared.empty()) return false;
    std::swap(victim, shared.back());
    shared.pop_back();
    pool.deallocate(victim.first);
    return true;
  });

  const auto work = [&](unsigned seed) {
    std::mt19937 random(seed);
    const auto below = [&](size_t n) { return random() % n; };
    for (int i = 0; i < kSteps; ++i) {
      const StreamHandle stream = stream_handle(below(2));
      const size_t bytes = 1 + below(below(5) == 0 ? 90 * kKiB : 5 * kKiB);
      try {
        void* block = pool.allocate(bytes, stream, "thread");
        f.memory.check_unused_by_others(stream, block, bytes);
        f.memory.work(stream, block, bytes);
        if (below(4) == 0) f.use(block, bytes, stream_handle(below(2)));
        const std::lock_guard lock(mutex);
        shared.emplace_back(block, bytes);
        std::swap(shared[below(shared.size())], shared.back());
      } catch (const OutOfMemoryError&) {
      }
      std::pair<void*, size_t> victim{};
      {
        const std::lock_guard lock(mutex);
        if (shared.size() > 40) {
          victim = shared.back();
          shared.pop_back();
        }
      }
      pool.deallocate(victim.first);
      if (below(8) == 0) f.memory.advance(stream, below(30));
      if (below(200) == 0) pool.reset_peak();
      if (below(500) == 0) CHECK(pool.snapshot().size() > 100);
      if (below(100) == 0) CHECK(BlockPoolInspector::check(pool) == "");
      try {
        if (below(300) == 0) pool.empty_cache();
      } catch (const StateError&) {  // a capture is underway
      }
    }
  };
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kThreads; ++t) threads.emplace_back(work, t);
  threads.emplace_back([&] {  // user pools on a stream of its own
    for (int i = 0; i < kSteps / 100; ++i) {
      const PrivatePoolScope scope(pool, 9, [](StreamHandle s) { return s == kC; });
      for (int k = 0; k < 20; ++k) {
        try {
          pool.deallocate(pool.allocate(3000, kC));
        } catch (const OutOfMemoryError&) {
        }
      }
    }
    for (int i = 0; i < kSteps / 100; ++i) pool.release_pool(9);
  });
  for (auto& thread : threads) thread.join();
  for (const auto& [block, bytes] : shared) pool.deallocate(block);
  f.check();
  CHECK(pool.stats().allocations.current == 0);
  CHECK(pool.stats().retries > 0);
  CHECK(callbacks > 0);
}

TEST_CASE("block pool: threads share it, and one another's blocks") {
  run_threads(small_options());
}

TEST_CASE("block pool: threads share expandable segments") { run_threads(expandable_options()); }

}  // namespace
}  // namespace lathe
