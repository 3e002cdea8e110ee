// Private pools and graph capture. Several cases are faults that other allocators have had; they
// say which (pytorch#N: that project's issue).
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "block_pool_fixture.h"
#include "lathe/core/error.h"

namespace lathe {
namespace {

/// A capture of stream `origin` into private pool `id`, the way a graph makes one: routing first.
struct Capture {
  Capture(PoolFixture& fixture, BlockPool::PoolId id, StreamHandle origin_stream)
      : memory(fixture.memory),
        origin(origin_stream),
        scope(
            *fixture.pool, id,
            [&m = memory](StreamHandle s) { return s != nullptr && m.capture_id(s) != 0; },
            origin) {
    memory.begin_capture(origin);
  }
  ~Capture() {
    if (memory.capture_id(origin) != 0) memory.end_capture(origin);
  }

  FakeMemory& memory;
  StreamHandle origin;
  PrivatePoolScope scope;
};

TEST_CASE(
    "private pool: chosen streams get segments of their own, and blocks find their way back") {
  PoolFixture f;
  f.give(f.take(1000, kB));  // leaves a free block in the default pool
  void* captured = nullptr;
  {
    const Capture capture(f, 7, kB);
    captured = f.take(1000, kB);
    void* other = f.take(1000, kC);  // is not captured
    CHECK(nlohmann::json::parse(f.pool->snapshot())["capturing"] == true);
    f.give(other);
  }
  auto json = nlohmann::json::parse(f.pool->snapshot());
  CHECK(json["segments"][1]["pool"] == 7);
  CHECK(json["segments"][2]["pool"] == 0);
  f.give(captured);
  void* outside = f.take(1000, kB);
  CHECK(outside != captured);
  {
    const Capture capture(f, 7, kB);
    CHECK(f.take(1000, kB) == captured);
  }
  f.give(captured);
  f.give(outside);
  f.pool->release_pool(7);
  f.pool->release_pool(7);
}

TEST_CASE("private pool: segments stay until the graph is gone and the last block is free") {
  PoolFixture f;
  void* block = nullptr;
  void* second = nullptr;
  {
    const Capture capture(f, 1, kB);
    block = f.take(100 * kKiB, kB);
    second = f.take(1000, kB);
  }
  f.give(block);
  f.pool->empty_cache();
  CHECK(f.pool->stats().reserved_bytes.current == (112 + 16) * kKiB);  // replays use them
  f.pool->release_pool(1);
  f.pool->empty_cache();
  CHECK(f.pool->stats().reserved_bytes.current == 16 * kKiB);
  CHECK(BlockPoolInspector::arenas(*f.pool) == 2);
  CHECK_THROWS_WITH_AS(f.pool->release_pool(1), doctest::Contains("have released it"), StateError);
  f.give(second);
  f.pool->empty_cache();
  CHECK(f.pool->stats().reserved_bytes.current == 0);
  CHECK(BlockPoolInspector::arenas(*f.pool) == 1);
  CHECK_THROWS_WITH_AS(f.pool->release_pool(1), doctest::Contains("no such private pool"),
                       ValueError);
}

TEST_CASE("private pool: calls in a wrong order name the pool") {
  PoolFixture f;
  const auto all = [](StreamHandle) { return true; };
  CHECK_THROWS_WITH_AS(f.pool->begin_pool(0, all),
                       doctest::Contains("begin_pool: 0 is the default pool"), ValueError);
  CHECK_THROWS_WITH_AS(f.pool->begin_pool(1, nullptr),
                       doctest::Contains("begin_pool(1): the stream filter is empty"), ValueError);
  CHECK_THROWS_WITH_AS(f.pool->end_pool(3), doctest::Contains("end_pool(3)"), StateError);
  CHECK_THROWS_WITH_AS(f.pool->release_pool(3),
                       doctest::Contains("release_pool(3): there is no such private pool"),
                       ValueError);
  CHECK_THROWS_WITH_AS(f.pool->release_pool(0),
                       doctest::Contains("release_pool(0): there is no such private pool"),
                       ValueError);
  f.pool->begin_pool(3, all);
  CHECK_THROWS_WITH_AS(f.pool->begin_pool(3, all), doctest::Contains("served already"), StateError);
  CHECK_THROWS_WITH_AS(f.pool->release_pool(3), doctest::Contains("last user"), StateError);
  f.pool->end_pool(3);
  CHECK_THROWS_WITH_AS(f.pool->end_pool(3),
                       doctest::Contains("end_pool(3): begin_pool() was not called"), StateError);
  f.pool->release_pool(3);
  CHECK_THROWS_WITH_AS(f.pool->release_pool(3), doctest::Contains("release_pool(3)"), ValueError);
}

TEST_CASE("capture: when memory is short nothing is given back or waited for (pytorch#159594)") {
  PoolFixture f(small_options(), 256 * kKiB);
  bool called = false;
  f.pool->add_oom_callback([&](size_t) { return called = true; });
  f.give(f.take(128 * kKiB, kA));
  const auto forbidden = [&] { return f.calls("deallocate") + f.calls("synchronize"); };
  {
    const Capture capture(f, 1, kB);
    CHECK_THROWS_WITH_AS(f.pool->allocate(200 * kKiB, kB),
                         doctest::Contains("because a graph is being captured"), OutOfMemoryError);
    // Another thread's stream is not captured, but giving memory back would break the capture.
    CHECK_THROWS_AS(f.pool->allocate(200 * kKiB, kC), OutOfMemoryError);
    CHECK_THROWS_WITH_AS(f.pool->empty_cache(),
                         doctest::Contains("empty_cache: a graph is being captured"), StateError);
    CHECK_THROWS_WITH_AS(f.pool->set_limit_fraction(0.5),
                         doctest::Contains("set_limit_fraction: the device cannot be asked"),
                         StateError);
    f.give(f.take(100 * kKiB, kB));  // what the device still has is had
  }
  CHECK(forbidden() == 0);
  CHECK_FALSE(called);
  f.pool->release_pool(1);
  f.give(f.take(200 * kKiB, kC));
}

TEST_CASE("capture: no event is recorded in one, or queried (pytorch#193982)") {
  PoolFixture f;
  void* before = f.take(1000, kA);
  f.use(before, 1000, kC);
  f.give(before);  // its event is pending when the capture begins
  void* inside = nullptr;
  {
    const Capture capture(f, 1, kB);
    f.memory.wait_stream(kC, kB);
    inside = f.take(1000, kB);
    f.use(inside, 1000, kC);
    const size_t recorded = f.calls("record"), queried = f.calls("query");
    f.give(inside);
    void* more = f.take(100 * kKiB, kB);
    f.give(more);
    CHECK(f.calls("record") == recorded);
    CHECK(f.calls("query") == queried);
    CHECK(f.pool->stats().active_bytes.current == 2048);
  }
  f.memory.advance(kC);
  f.give(f.take(200 * kKiB, kA));
  CHECK(f.pool->stats().active_bytes.current == 0);
  CHECK(f.memory.live_events() == 0);
  f.pool->release_pool(1);
}

TEST_CASE("capture: a stream captured behind the pool's back gets no events either") {
  PoolFixture f;
  void* block = f.take(1000, kA);
  f.use(block, 1000, kC);
  f.memory.begin_capture(kC);
  f.give(block);
  f.give(f.take(100 * kKiB, kB));
  CHECK(f.calls("record") == 0);
  f.memory.end_capture(kC);
  f.memory.advance(kC);
  f.give(f.take(200 * kKiB, kB));
  CHECK(f.pool->stats().active_bytes.current == 0);
}

TEST_CASE("capture: an error at its end leaves no pool that believes in it for ever") {
  PoolFixture f(small_options(), 256 * kKiB);
  f.give(f.take(128 * kKiB, kA));
  const auto capture_that_fails = [&] {
    const Capture capture(f, 1, kB);
    f.give(f.take(1000, kB));
    throw CudaError("cudaStreamEndCapture: capture invalidated");
  };
  CHECK_THROWS_AS(capture_that_fails(), CudaError);
  CHECK_THROWS_WITH_AS(f.pool->end_pool(1),
                       doctest::Contains("end_pool(1): begin_pool() was not called"),
                       StateError);  // the scope ended it
  f.pool->release_pool(1);
  f.give(f.take(250 * kKiB, kB));  // served by the default pool, with the whole ladder
  CHECK(f.pool->stats().reserved_bytes.current == 256 * kKiB);
}

TEST_CASE("capture: one that ended inside the scope does not count as underway") {
  PoolFixture f(small_options(), 256 * kKiB);
  f.give(f.take(128 * kKiB, kA));
  const Capture capture(f, 1, kB);
  f.memory.end_capture(kB);
  f.pool->empty_cache();
  CHECK(f.pool->stats().reserved_bytes.current == 0);
}

TEST_CASE("private pool without capture: out of memory is recovered from (pytorch#175015)") {
  PoolFixture f(small_options(), 256 * kKiB);
  int calls = 0;
  f.pool->add_oom_callback([&](size_t) { return ++calls < 0; });
  f.give(f.take(128 * kKiB, kA));
  {
    const PrivatePoolScope scope(*f.pool, 5, [](StreamHandle) { return true; });
    void* block = f.take(200 * kKiB, kB);
    CHECK(calls == 1);
    f.use(block, 200 * kKiB, kC);
    f.give(block);
    CHECK(f.calls("record") == 1);  // at once
  }
  f.pool->release_pool(5);
}

TEST_CASE("capture: memory that joined streams used is reused within it (pytorch#155658)") {
  PoolFixture f(small_options(), 256 * kKiB);
  {
    const Capture capture(f, 1, kB);
    for (int i = 0; i < 1000; ++i) {
      void* block = f.take(100 * kKiB, kB);
      f.memory.wait_stream(kC, kB);  // fork
      f.use(block, 100 * kKiB, kC);
      f.give(block);
      f.memory.wait_stream(kB, kC);  // join: B is now behind what C did
    }
    CHECK(f.pool->stats().reserved_bytes.peak <= 256 * kKiB);
    CHECK(f.pool->stats().ooms == 0);
  }
  f.pool->release_pool(1);
}

TEST_CASE("capture: memory that streams not yet joined use is not reused") {
  PoolFixture f;
  {
    const Capture capture(f, 1, kB);
    f.memory.wait_stream(kC, kB);
    void* block = f.take(100 * kKiB, kB);
    f.use(block, 100 * kKiB, kC);
    f.give(block);
    void* second = f.take(100 * kKiB, kB);
    CHECK(second != block);
    f.memory.wait_stream(kB, kC);
    void* third = f.take(100 * kKiB, kB);
    CHECK(third == block);
    f.give(second);
    f.give(third);
  }
  f.pool->release_pool(1);
}

TEST_CASE("capture: a join inside does not wait for what a stream did outside") {
  PoolFixture f;
  void* block = nullptr;
  {
    const Capture capture(f, 1, kB);
    block = f.take(100 * kKiB, kB);
  }
  f.use(block, 100 * kKiB, kC);  // runs now
  {
    const Capture capture(f, 1, kB);
    f.memory.wait_stream(kC, kB);
    f.use(block, 100 * kKiB, kC);
    f.give(block);
    f.memory.wait_stream(kB, kC);
    void* other = f.take(100 * kKiB, kB);
    CHECK(other != block);
    f.give(other);
  }
  f.pool->release_pool(1);
  f.pool->release_pool(1);
}

TEST_CASE("capture: blocks of the default pool that are freed meanwhile come back after it") {
  PoolFixture f;
  void* block = f.take(128 * kKiB, kA);
  f.use(block, 128 * kKiB, kB);
  {
    const Capture capture(f, 1, kB);
    f.give(block);
    void* other = f.take(128 * kKiB, kA);
    CHECK(other != block);
    f.give(other);
  }
  f.memory.advance(kB);
  void* first = f.take(128 * kKiB, kA);  // the other one, free already
  CHECK(f.take(128 * kKiB, kA) == block);
  f.give(block);
  f.give(first);
  f.pool->release_pool(1);
}

}  // namespace
}  // namespace lathe
