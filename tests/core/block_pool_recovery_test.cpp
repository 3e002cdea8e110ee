// What the pool does when the device refuses memory, rung by rung; limits, callbacks, empty_cache.
#include <cmath>
#include <string>
#include <vector>

#include "block_pool_fixture.h"
#include "lathe/core/error.h"

namespace lathe {
namespace {

TEST_CASE("block pool: when memory is short, the smallest sufficient cached segment goes first") {
  PoolFixture f(small_options(), 512 * kKiB);
  void* a = f.take(96 * kKiB, kA);
  void* b = f.take(160 * kKiB, kA);
  void* c = f.take(256 * kKiB, kA);
  for (void* block : {a, b, c}) f.give(block);
  void* d = f.take(150 * kKiB, kB);  // of 96, 160 and 256 KiB cached
  CHECK(f.calls("deallocate") == 1);
  CHECK(f.calls("synchronize") == 0);
  CHECK(f.pool->stats().reserved_bytes.current == 512 * kKiB);
  CHECK(f.pool->stats().retries == 1);
  CHECK(f.take(256 * kKiB, kA) == c);
  f.give(c);
  void* e = f.take(300 * kKiB, kB);  // none alone: the largest, then the next
  CHECK(f.calls("deallocate") == 3);
  f.give(d);
  f.give(e);
}

TEST_CASE("block pool: the last rung waits for the device and releases everything that is free") {
  PoolFixture f(small_options(), 256 * kKiB);
  void* a = f.take(128 * kKiB, kA);
  void* b = f.take(112 * kKiB, kA);
  f.use(a, 128 * kKiB, kB);
  f.give(a);
  f.give(b);
  void* c = f.take(256 * kKiB, kA);
  CHECK(f.calls("synchronize") == 1);
  CHECK(f.pool->stats().ooms == 0);
  f.give(c);
}

TEST_CASE("block pool: a block that the wait made free is taken without asking the device") {
  PoolFixture f(small_options(), 144 * kKiB);
  void* a = f.take(60 * kKiB, kA);
  void* b = f.take(60 * kKiB, kA);
  f.use(a, 60 * kKiB, kB);
  f.give(a);
  const size_t asked = f.calls("allocate");
  CHECK(f.take(60 * kKiB, kA) == a);
  CHECK(f.calls("allocate") == asked + 1);  // the one that was refused
  f.give(a);
  f.give(b);
}

TEST_CASE("block pool: near the end a shared segment shrinks to what the request needs") {
  PoolFixture f(small_options(), 160 * kKiB);
  void* a = f.take(128 * kKiB, kA);
  void* b = f.take(20 * kKiB, kA);  // 32 KiB are left, 128 KiB would be shared
  CHECK(f.pool->stats().reserved_bytes.current == 160 * kKiB);
  f.give(a);
  f.give(b);
}

TEST_CASE("block pool: available are the largest free block and what the limit leaves") {
  PoolFixture f(small_options(), 512 * kKiB);
  CHECK(f.pool->available_bytes(kA) == 512 * kKiB);
  void* a = f.take(96 * kKiB, kA);
  CHECK(f.pool->available_bytes(kA) == 416 * kKiB);
  f.give(a);
  CHECK(f.pool->available_bytes(kA) == 512 * kKiB);
  CHECK(f.pool->available_bytes(kB) == 416 * kKiB);  // the cached block is another stream's
  f.pool->set_limit(128 * kKiB);
  CHECK(f.pool->available_bytes(kA) == 128 * kKiB);
  f.pool->set_limit(64 * kKiB);
  CHECK(f.pool->available_bytes(kB) == 0);
}

TEST_CASE("block pool: out of memory says who holds it, and changes nothing that is in use") {
  PoolFixture f(small_options(), 512 * kKiB);
  void* a = f.take(256 * kKiB, kA, "weights");
  void* b = f.take(100 * kKiB, kA, "activations");
  void* c = f.take(60 * kKiB, kA);
  void* d = f.take(4 * kKiB, kA, "weights");
  f.give(c);
  const auto live = BlockPoolInspector::live_blocks(*f.pool);
  std::string text;
  try {
    f.pool->allocate(1000 * kKiB, kA, "logits");
  } catch (const OutOfMemoryError& error) {
    text = error.message();
  }
  CHECK(text ==
        "fake: out of memory: requested 1000 KiB for logits (live 360 KiB, waiting for streams "
        "0 bytes, cached 24 KiB, largest free 12 KiB, limit none, device 128 KiB free of 512 KiB; "
        "biggest calls: weights 260 KiB in 2 blocks, activations 100 KiB in 1 block)");
  CHECK(BlockPoolInspector::live_blocks(*f.pool) == live);
  f.check();
  CHECK(f.pool->stats().ooms == 1);
  for (void* block : {a, b, d}) f.give(block);
}

TEST_CASE("block pool: callbacks run before cached segments are released, without the lock") {
  PoolFixture f(small_options(), 256 * kKiB);
  void* cache = f.take(128 * kKiB, kA, "cache");
  std::vector<size_t> asked;
  const uint64_t id = f.pool->add_oom_callback([&](size_t bytes) {
    asked.push_back(bytes);
    f.pool->deallocate(cache);
    CHECK_THROWS_AS(f.pool->allocate(512 * kKiB, kA), OutOfMemoryError);  // does not call again
    return true;
  });
  void* block = f.take(250 * kKiB, kB);
  CHECK(asked == std::vector<size_t>{250 * kKiB});
  f.give(block);
  f.pool->remove_oom_callback(id);
  CHECK_THROWS_AS(f.pool->allocate(1024 * kKiB, kA), OutOfMemoryError);
  CHECK(asked.size() == 1);
  CHECK_THROWS_WITH_AS(f.pool->add_oom_callback(nullptr),
                       doctest::Contains("the callback is empty"), ValueError);
}

TEST_CASE("block pool: what a callback throws leaves allocate, and the pool goes on") {
  PoolFixture f(small_options(), 256 * kKiB);
  const uint64_t id =
      f.pool->add_oom_callback([](size_t) -> bool { throw StateError("from the callback"); });
  CHECK_THROWS_WITH_AS(f.pool->allocate(512 * kKiB, kA), "from the callback", StateError);
  f.check();
  f.pool->remove_oom_callback(id);
  f.give(f.take(100, kA));
}

TEST_CASE("block pool: a limit releases the cache before it fails an allocation") {
  PoolFixture f;
  f.pool->set_limit(256 * kKiB);
  f.give(f.take(200 * kKiB, kA));
  void* block = f.take(200 * kKiB, kB);  // in place of the cached segment of another stream
  CHECK(f.pool->stats().reserved_bytes.current == 208 * kKiB);
  CHECK_THROWS_WITH_AS(f.pool->allocate(100 * kKiB, kA), doctest::Contains("limit 256 KiB"),
                       OutOfMemoryError);
  f.pool->set_limit_fraction(0.5);
  CHECK(f.pool->stats().limit_bytes == 512 * kKiB);
  f.give(f.take(100 * kKiB, kA));
  f.give(block);
  CHECK_THROWS_WITH_AS(f.pool->set_limit_fraction(0),
                       doctest::Contains("in (0, 1] of the memory, got 0"), ValueError);
  CHECK_THROWS_WITH_AS(f.pool->set_limit_fraction(1.01), doctest::Contains("got 1.01"), ValueError);
  CHECK_THROWS_WITH_AS(f.pool->set_limit_fraction(std::nan("")), doctest::Contains("got nan"),
                       ValueError);
}

TEST_CASE("block pool: empty_cache returns free segments and keeps those in use") {
  PoolFixture f;
  void* keep = f.take(1000, kA);
  void* waits = f.take(20 * kKiB, kB);
  f.use(waits, 20 * kKiB, kC);
  f.give(f.take(80 * kKiB, kA));
  f.give(waits);
  f.pool->empty_cache();
  f.check();
  CHECK(f.pool->stats().reserved_bytes.current == 16 * kKiB);
  CHECK(f.memory.live_events() == 0);
  f.give(keep);
}

TEST_CASE("block pool: freeing on a stream that is destroyed already waits for the device") {
  PoolFixture f(small_options(), 128 * kKiB);
  void* block = f.take(128 * kKiB, kA);
  f.use(block, 128 * kKiB, kB);
  f.memory.destroy_stream(kB);  // its kernel still runs
  f.give(block);
  f.check();
  CHECK(f.take(128 * kKiB, kA) == block);  // after the ladder's wait
  CHECK(f.calls("synchronize") == 1);
  f.give(block);
}

}  // namespace
}  // namespace lathe
