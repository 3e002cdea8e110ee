// The pool's rules one by one, on the fake device: sizes, best fit, splitting, streams, statistics,
// snapshot, misuse, the driver's end. Recovery, captures, expandable segments, threads, faults and
// random sequences have files of their own beside this one.
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "block_pool_fixture.h"
#include "lathe/core/error.h"
#include "lathe/core/log.h"

namespace lathe {
namespace {

char* bytes_at(void* block) { return static_cast<char*>(block); }

TEST_CASE("block pool: sizes are rounded up to 512 bytes, and 0 bytes are no block") {
  PoolFixture f;
  CHECK(f.pool->allocate(0, kA) == nullptr);
  f.give(nullptr);
  char* first = bytes_at(f.take(1, kA));
  char* second = bytes_at(f.take(513, kA));
  CHECK(second == first + 512);
  CHECK(f.take(1, kA) == second + 1024);
  CHECK(f.pool->stats().requested_bytes.current == 515);
  CHECK(f.pool->stats().allocated_bytes.current == 2048);
  for (char* block : {first, second, second + 1024}) f.give(block);
}

TEST_CASE("block pool: a size beyond any rounding is out of memory, and asks nobody") {
  PoolFixture f;
  for (const size_t bytes : {SIZE_MAX, SIZE_MAX - 511, (SIZE_MAX >> 1) + 1}) {
    CHECK_THROWS_AS(f.pool->allocate(bytes, kA), OutOfMemoryError);
  }
  CHECK(f.calls("allocate") == 0);
  CHECK(f.pool->stats().ooms == 3);
}

TEST_CASE("block pool: small and large requests share segments of their own kind") {
  PoolFixture f;
  char* small = bytes_at(f.take(4 * kKiB, kA));
  CHECK(f.pool->stats().reserved_bytes.current == 16 * kKiB);
  char* large = bytes_at(f.take(4 * kKiB + 1, kA));
  CHECK(f.pool->stats().reserved_bytes.current == (16 + 128) * kKiB);
  CHECK(f.take(4 * kKiB, kA) == small + 4 * kKiB);
  CHECK(f.take(60 * kKiB, kA) == large + 4 * kKiB + 512);
  CHECK(f.pool->stats().segments.current == 2);
  char* own = bytes_at(f.take(65 * kKiB, kA));  // in steps of 16 KiB
  CHECK(f.pool->stats().reserved_bytes.current == (16 + 128 + 80) * kKiB);
  for (char* block : {small, large, small + 4 * kKiB, large + 4 * kKiB + 512, own}) f.give(block);
}

TEST_CASE("block pool: best fit, the lowest address among equals") {
  PoolFixture f;
  std::vector<void*> blocks;
  for (const size_t bytes : {2048, 512, 1024, 512, 1024, 512, 2048, 512})
    blocks.push_back(f.take(bytes, kA));
  for (const size_t i : {4, 2, 0, 6}) f.give(blocks[i]);  // free: 2048, 1024, 1024, 2048
  CHECK(f.take(1024, kA) == blocks[2]);
  CHECK(f.take(700, kA) == blocks[4]);
  CHECK(f.take(1025, kA) == blocks[0]);  // splits off 512 bytes
  CHECK(f.take(512, kA) == bytes_at(blocks[0]) + 1536);
  CHECK(f.calls("allocate") == 1);
  for (void* block : {blocks[2], blocks[4], blocks[0]}) f.give(block);
  f.give(bytes_at(blocks[0]) + 1536);
  for (const size_t i : {1, 3, 5, 7}) f.give(blocks[i]);
}

TEST_CASE("block pool: large blocks keep a rest that is not worth splitting off") {
  PoolFixture f;
  char* first = bytes_at(f.take(60 * kKiB, kA));
  char* second =
      bytes_at(f.take(64 * kKiB - 512, kA));  // leaves 4.5 KiB: more than a small request
  CHECK(second == first + 60 * kKiB);
  CHECK(f.pool->stats().inactive_split_bytes.current == 4608);
  f.give(second);
  CHECK(f.take(64 * kKiB, kA) == second);  // of 68 KiB: the rest of 4 KiB stays with the block
  CHECK(f.pool->stats().allocated_bytes.current == (60 + 68) * kKiB);
  f.give(first);
  f.give(second);
}

TEST_CASE("block pool: neighbours merge in every order, and only within a segment") {
  for (const auto& order : std::vector<std::vector<size_t>>{
           {0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}) {
    PoolFixture f;
    std::vector<void*> blocks;
    for (int i = 0; i < 3; ++i) blocks.push_back(f.take(4 * kKiB, kA));
    for (const size_t i : order) f.give(blocks[i]);
    CHECK(BlockPoolInspector::table_size(*f.pool) == 1);
    CHECK(f.pool->stats().inactive_split_bytes.current == 0);
  }
}

TEST_CASE("block pool: blocks of max_split and more stay whole, for such requests only") {
  BlockPoolOptions options = small_options();
  options.max_split = 256 * kKiB;
  PoolFixture f(options);
  void* large = f.take(400 * kKiB, kA);
  f.give(large);
  void* other = f.take(200 * kKiB, kA);
  CHECK(other != large);
  void* again = f.take(300 * kKiB, kA);  // 100 KiB of waste are fine
  CHECK(again == large);
  CHECK(f.pool->stats().allocated_bytes.current == (200 + 400) * kKiB);
  f.give(again);
  void* smaller = f.take(256 * kKiB, kA);  // 144 KiB are not
  CHECK(smaller != large);
  f.give(smaller);
  f.give(other);
}

TEST_CASE("block pool: a rest as large as a large segment is too much to waste") {
  BlockPoolOptions options = small_options();
  options.max_split = 256 * kKiB;
  for (const size_t waste : {options.large_segment, options.large_segment - 512}) {
    PoolFixture f(options);
    void* large = f.take(400 * kKiB, kA);
    f.give(large);
    void* block = f.take(400 * kKiB - waste, kA);
    CHECK((block == large) == (waste < options.large_segment));
    f.give(block);
  }
}

TEST_CASE("block pool: pinned memory is rounded to powers of two") {
  BlockPoolOptions options = small_options();
  options.rounding = BlockPoolOptions::Rounding::kPowerOfTwo;
  PoolFixture f(options);
  void* first = f.take(700, kA);
  void* second = f.take(100 * kKiB, kA);
  CHECK(f.pool->stats().allocated_bytes.current == (1 + 128) * kKiB);
  f.use(second, 100 * kKiB, kB);  // an asynchronous copy
  f.give(second);
  void* third = f.take(90 * kKiB, kA);
  CHECK(third != second);
  f.memory.advance(kB);
  CHECK(f.take(128 * kKiB, kA) == second);
  for (void* block : {first, second, third}) f.give(block);
}

TEST_CASE("block pool: a stream reuses its own blocks at once, others never do") {
  PoolFixture f;
  void* first = f.take(1000, kB);
  f.give(first);
  CHECK(f.take(1000, kB) == first);
  f.give(first);
  void* other = f.take(1000, kC);
  CHECK(other != first);
  f.give(other);
  CHECK(f.calls("record") == 0);
  CHECK(f.calls("query") == 0);
}

TEST_CASE("block pool: a block that other streams used comes back when each of them is done") {
  PoolFixture f;
  void* block = f.take(16 * kKiB, kA);
  f.use(block, 16 * kKiB, kB);
  f.use(block, 16 * kKiB, kB);
  f.use(block, 16 * kKiB, kC);
  f.pool->record_stream(block, kA);  // its own: no effect
  f.give(block);
  CHECK(f.calls("record") == 2);
  CHECK(f.pool->stats().allocated_bytes.current == 0);
  CHECK(f.pool->stats().active_bytes.current == 16 * kKiB);
  void* second = f.take(112 * kKiB, kA);  // what is left of the segment
  f.memory.advance(kB);
  void* third = f.take(16 * kKiB, kA);
  CHECK(third != block);
  f.memory.advance(kC);
  void* rest = f.take(112 * kKiB, kA);  // what is left of the second segment
  CHECK(f.take(16 * kKiB, kA) == block);
  CHECK(f.calls("synchronize") == 0);
  for (void* b : {block, second, third, rest}) f.give(b);
}

TEST_CASE("block pool: statistics count current, peak and total") {
  PoolFixture f;
  void* a = f.take(1000, kA);
  void* b = f.take(3000, kA);
  f.give(a);
  BlockPoolStats s = f.pool->stats();
  CHECK(s.allocations.current == 1);
  CHECK(s.allocations.peak == 2);
  CHECK(s.allocations.total == 2);
  CHECK(s.allocated_bytes.current == 3072);
  CHECK(s.allocated_bytes.peak == 4096);
  CHECK(s.requested_bytes.peak == 4000);
  CHECK(s.inactive_split_bytes.current == 13 * kKiB);
  CHECK(s.cached_bytes() == 13 * kKiB);
  f.pool->reset_peak();
  s = f.pool->stats();
  CHECK(s.allocated_bytes.peak == 3072);
  CHECK(s.allocated_bytes.total == 4096);
  f.give(b);
}

TEST_CASE("block pool: without caching every block is exactly its size and goes back at once") {
  BlockPoolOptions options = small_options();
  options.cache = false;
  PoolFixture f(options);
  void* a = f.take(1001, kA);
  void* b = f.take(700, kA);
  CHECK(f.memory.used_bytes() == 1701);
  f.give(a);
  CHECK(f.memory.used_bytes() == 700);
  f.use(b, 700, kB);
  f.give(b);
  CHECK(f.memory.used_bytes() == 700);  // stream B is not done
  f.memory.advance(kB);
  f.give(f.take(1, kA));
  CHECK(f.memory.used_bytes() == 0);
}

TEST_CASE("block pool: the snapshot shows segments, blocks, statistics and history") {
  PoolFixture f;
  f.pool->set_history(4);
  void* a = f.take(1000, kB, "weights");
  void* b = f.take(20 * kKiB, kB, "an odd \xff tag");
  f.use(b, 20 * kKiB, kC);
  f.give(b);
  const auto json = nlohmann::json::parse(f.pool->snapshot());
  CHECK(json["name"] == "fake");
  CHECK(json["capturing"] == false);
  CHECK(json["statistics"]["allocated_bytes"]["current"] == 1024);
  CHECK(json["statistics"]["ooms"] == 0);
  REQUIRE(json["segments"].size() == 2);
  const auto& small = json["segments"][0];
  CHECK(small["kind"] == "small");
  CHECK(small["stream"] == "0x10");
  CHECK(small["pool"] == 0);
  REQUIRE(small["blocks"].size() == 2);
  CHECK(small["blocks"][0]["state"] == "live");
  CHECK(small["blocks"][0]["requested"] == 1000);
  CHECK(small["blocks"][0]["tag"] == "weights");
  CHECK(small["blocks"][0]["address"] == small["address"]);
  CHECK(small["blocks"][1]["state"] == "free");
  CHECK(json["segments"][1]["blocks"][0]["state"] == "waiting");
  CHECK(json["segments"][1]["blocks"][0]["waits_for"][0] == "0x20");
  std::vector<std::string> events;
  for (const auto& event : json["history"]) events.push_back(event["event"]);
  CHECK(events == std::vector<std::string>{"allocate", "reserve", "allocate", "deallocate"});
  CHECK(json["history_dropped"] == 1);
  size_t sum = 0;
  for (const auto& segment : json["segments"]) {
    for (const auto& block : segment["blocks"]) sum += block["bytes"].get<size_t>();
  }
  CHECK(sum == f.pool->stats().reserved_bytes.current);
  f.pool->set_history(0);
  f.give(a);
  CHECK(nlohmann::json::parse(f.pool->snapshot())["history"].empty());
}

TEST_CASE("block pool: freeing what is no live block is logged once and changes nothing") {
  PoolFixture f;
  void* block = f.take(1000, kA);
  std::vector<std::string> messages;
  const LogHandler before = set_log_handler([&](LogLevel level, std::string_view text) {
    CHECK(level == LogLevel::kError);
    messages.emplace_back(text);
  });
  int foreign = 0;
  f.give(&foreign);
  f.give(bytes_at(block) + 1);
  f.give(bytes_at(block) + 1024);  // a free block
  f.give(block);
  f.give(block);
  set_log_handler(before);
  REQUIRE(messages.size() == 1);
  CHECK(messages[0].find("not the address of a block of this pool") != std::string::npos);
  CHECK(f.pool->stats().allocations.current == 0);

  PoolFixture g;
  void* twice = g.take(1000, kA);
  messages.clear();
  set_log_handler([&](LogLevel, std::string_view text) { messages.emplace_back(text); });
  g.give(twice);
  g.give(twice);
  set_log_handler(before);
  REQUIRE(messages.size() == 1);
}

TEST_CASE("block pool: record_stream of what is no live block is an error") {
  PoolFixture f;
  int foreign = 0;
  CHECK_THROWS_WITH_AS(f.pool->record_stream(&foreign, kB),
                       doctest::Contains("record_stream of an address that is no live block"),
                       ValueError);
  f.pool->record_stream(nullptr, kB);
  void* block = f.take(1000, kA);
  f.give(block);
  CHECK_THROWS_WITH_AS(f.pool->record_stream(block, kB),
                       doctest::Contains("record_stream of an address that is no live block"),
                       ValueError);
}

TEST_CASE("block pool: options that contradict each other are refused") {
  FakeMemory memory(1024);
  const auto refused = [&](auto change) {
    BlockPoolOptions options = small_options();
    change(options);
    CHECK_THROWS_AS(BlockPool(memory, options), ValueError);
  };
  refused([](BlockPoolOptions& o) { o.alignment = 500; });
  refused([](BlockPoolOptions& o) { o.alignment = 0; });
  refused([](BlockPoolOptions& o) { o.segment_step = 0; });
  refused([](BlockPoolOptions& o) { o.large_segment = 1000; });
  refused([](BlockPoolOptions& o) { o.small_request = 32 * kKiB; });
  refused([](BlockPoolOptions& o) { o.own_segment = 256 * kKiB; });
  CHECK(memory.violation() == "");
}

TEST_CASE("block pool: after the driver's end nothing is called and nothing throws") {
  PoolFixture f;
  void* a = f.take(1000, kA);
  void* b = f.take(1000, kA);
  f.use(b, 1000, kB);
  void* waiting = f.take(1000, kA);
  f.use(waiting, 1000, kB);
  f.give(waiting);
  f.memory.alive = false;
  f.give(a);
  f.give(b);
  f.pool->empty_cache();
  CHECK_THROWS_WITH_AS(f.pool->allocate(512 * kKiB, kA),
                       doctest::Contains("after the driver was shut down"), StateError);
  f.pool.reset();
}

TEST_CASE("block pool: ending with blocks in use is logged, and their segments stay") {
  FakeMemory memory(1024 * kKiB);
  std::string message;
  const LogHandler before =
      set_log_handler([&](LogLevel, std::string_view text) { message = text; });
  {
    BlockPool pool(memory, small_options());
    pool.record_stream(pool.allocate(1000, kA), kB);
    pool.deallocate(pool.allocate(100 * kKiB, kA));
  }
  set_log_handler(before);
  CHECK(memory.used_bytes() == 16 * kKiB);
  CHECK(message == "fake: the pool ends with blocks in use (1, 1024 bytes)");
  CHECK(memory.violation() == "");
}

}  // namespace
}  // namespace lathe
