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

// Blocks that threads hand to each other.
class SharedBlocks {
 public:
  explicit SharedBlocks(BlockPool& pool) : pool_(pool) {}

  void put(void* block, std::mt19937& random) {
    const std::lock_guard lock(mutex_);
    blocks_.push_back(block);
    std::swap(blocks_[random() % blocks_.size()], blocks_.back());
  }
  // Null unless there are more than enough.
  void* take() {
    const std::lock_guard lock(mutex_);
    return blocks_.size() > 40 ? pop() : nullptr;
  }
  // Where memory runs out. False if there is none to give back.
  bool give_one_back() {
    const std::lock_guard lock(mutex_);
    if (blocks_.empty()) return false;
    pool_.deallocate(pop());
    return true;
  }
  void give_all_back() {
    while (give_one_back()) {
    }
  }

 private:
  void* pop() {
    void* const block = blocks_.back();
    blocks_.pop_back();
    return block;
  }

  BlockPool& pool_;
  std::mutex mutex_;
  std::vector<void*> blocks_;
};

// Allocates, hands blocks on, shares them with other streams, empties the cache, reads statistics
// and snapshots.
void use_pool(PoolFixture& f, SharedBlocks& shared, unsigned seed) {
  BlockPool& pool = *f.pool;
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
      shared.put(block, random);
    } catch (const OutOfMemoryError&) {
    }
    pool.deallocate(shared.take());
    if (below(8) == 0) f.memory.advance(stream, below(30));
    if (below(200) == 0) pool.reset_peak();
    if (below(500) == 0) CHECK(pool.snapshot().size() > 100);
    if (below(100) == 0) CHECK(BlockPoolInspector::check(pool) == "");
    try {
      if (below(300) == 0) pool.empty_cache();
    } catch (const StateError&) {  // a capture is underway
    }
  }
}

// Captures graphs into a private pool, on a stream of its own.
void capture(BlockPool& pool) {
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
}

void run_threads(const BlockPoolOptions& options) {
  PoolFixture f(options, 768 * kKiB);
  BlockPool& pool = *f.pool;
  SharedBlocks shared(pool);
  std::atomic<int> callbacks = 0;
  pool.add_oom_callback([&](size_t) {
    ++callbacks;
    return shared.give_one_back();
  });
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kThreads; ++t) threads.emplace_back([&, t] { use_pool(f, shared, t); });
  threads.emplace_back([&] { capture(pool); });
  for (auto& thread : threads) thread.join();
  shared.give_all_back();
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
