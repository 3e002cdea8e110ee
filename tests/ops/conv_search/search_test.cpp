// What the search keeps between calls, and what it does when an engine fails in use.
#include "lathe/ops/conv/search/conv_search.h"

#include <doctest/doctest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "fake_library.h"
#include "lathe/core/error.h"
#include "temporary_file.h"

namespace lathe {
namespace {

TEST_CASE("search: once per key, then known") {
  FakeLibrary library;
  library.engines = {fake_engine(1, 2), fake_engine(2, 1)};
  ConvSearch search(10, library.clock());
  for (int i = 0; i < 5; ++i) CHECK(run(search, library, example_key()) == 2);
  CHECK(library.lists == 1);
  CHECK(library.executes == 5);
  const ConvSearchStats stats = search.stats();
  CHECK(stats.hits == 4);
  CHECK(stats.misses == 1);
  CHECK(stats.searches == 1);
  CHECK(stats.from_file == 0);
  CHECK(stats.dropped == 0);
  CHECK(stats.search_ms == search.find(example_key())->search_ms);
}

TEST_CASE("search: modes and flags have choices of their own") {
  FakeLibrary library;
  library.engines = {fake_engine(1, 3), fake_engine(2, 1), fake_engine(3, 2)};
  library.engines[0].info.tensor_cores = true;
  library.engines[1].info.deterministic = false;
  ConvSearch search(10, library.clock());
  ConvKey f32 = example_key(ConvMode::kDeterministic);
  f32.x.dtype = kF32;
  for (int round = 0; round < 2; ++round) {
    CHECK(run(search, library, example_key(ConvMode::kHeuristic)) == 1);
    CHECK(run(search, library, example_key(ConvMode::kBenchmark)) == 2);
    CHECK(run(search, library, example_key(ConvMode::kDeterministic)) == 1);
    CHECK(run(search, library, f32) == 3);
  }
  CHECK(search.stats().searches == 4);
}

TEST_CASE("search: keeps the choices used last, at most so many") {
  FakeLibrary library;
  library.engines = {fake_engine(1, 1)};
  ConvSearch search(3, library.clock());
  const std::vector<ConvKey> keys = example_keys(4);
  for (int i = 0; i < 3; ++i) run(search, library, keys[static_cast<size_t>(i)]);
  run(search, library, keys[0]);
  run(search, library, keys[3]);  // in the place of keys[1]
  CHECK(search.choices().size() == 3);
  CHECK(search.choices()[0].first == keys[3]);
  CHECK(search.find(keys[0]));
  CHECK(!search.find(keys[1]));
  CHECK(library.lists == 4);
  run(search, library, keys[1]);
  CHECK(library.lists == 5);
  search.clear();
  CHECK(search.choices().empty());
}

TEST_CASE("search: an engine that fails in use is dropped for good, the next one computes") {
  const Warnings log;
  const ConvKey key = example_keys(100).back();  // that no other test warned of
  FakeLibrary library;
  library.engines = {fake_engine(1, 1), fake_engine(2, 2), fake_engine(3, 3)};
  library.engines[0].fails_when_executed = "misaligned address";
  ConvSearch search(10, library.clock());
  CHECK(run(search, library, key) == 2);
  CHECK(library.executes == 1);
  REQUIRE(log.lines.size() == 1);
  CHECK(
      log.lines[0].find("engine 1 is given up for engine 2: misaligned address (backward_weight") !=
      std::string::npos);
  CHECK(run(search, library, key) == 2);
  CHECK(search.stats().dropped == 1);
  CHECK(library.lists == 1);
  CHECK(search.find(key)->provisional);
}

TEST_CASE("search: out of memory in use takes an engine that needs half") {
  const Warnings log;
  FakeLibrary library;
  library.engines = {fake_engine(1, 1, 1000), fake_engine(2, 2, 600), fake_engine(3, 3, 400)};
  ConvSearch search(10, library.clock());
  CHECK(run(search, library, example_key()) == 1);
  library.memory_bytes = 500;
  CHECK(run(search, library, example_key()) == 3);
  library.memory_bytes = 5000;
  CHECK(run(search, library, example_key()) == 3);
  CHECK(library.lists == 1);
}

TEST_CASE("search: in deterministic mode memory that is short changes no choice") {
  FakeLibrary library;
  library.engines = {fake_engine(1, 1, 1000), fake_engine(2, 2, 0)};
  ConvSearch search(10, library.clock());
  const ConvKey key = example_key(ConvMode::kDeterministic);
  library.memory_bytes = 500;
  for (int i = 0; i < 2; ++i) CHECK_THROWS_AS(run(search, library, key), OutOfMemoryError);
  library.memory_bytes = 5000;
  CHECK(run(search, library, key) == 1);
  CHECK(search.stats().dropped == 0);
  CHECK(library.lists == 1);
}

TEST_CASE("search: in deterministic mode an engine that fails is an error, and stays the choice") {
  const Warnings log;
  FakeLibrary library;
  library.engines = {fake_engine(1, 1), fake_engine(2, 2)};
  library.engines[0].fails_when_executed = "launch failed";
  ConvSearch search(10, library.clock());
  const ConvKey key = example_key(ConvMode::kDeterministic);
  const std::string want =
      concat("engine 1 failed, and another would have other bits: launch failed (", key, ")");
  for (int i = 0; i < 2; ++i)
    CHECK_THROWS_WITH_AS(run(search, library, key), doctest::Contains(want.c_str()), CudaError);
  library.engines[0].fails_when_executed = "";
  CHECK(run(search, library, key) == 1);
  CHECK(search.stats().dropped == 0);
  CHECK(library.lists == 1);
  CHECK(log.lines.empty());
}

TEST_CASE("search: when every engine fails in use the error names the key and nothing is kept") {
  const Warnings log;
  FakeLibrary library;
  library.engines = {fake_engine(1, 1), fake_engine(2, 2)};
  for (FakeEngine& engine : library.engines) engine.fails_when_executed = "launch failed";
  ConvSearch search(10, library.clock());
  const std::string key = concat(example_key());
  CHECK_THROWS_WITH_AS(run(search, library, example_key()), doctest::Contains(key.c_str()),
                       CudaError);
  CHECK(!search.find(example_key()));
  CHECK_THROWS_AS(run(search, library, example_key()), CudaError);
  CHECK(library.lists == 2);
  library.engines[1].fails_when_executed = "";
  CHECK(run(search, library, example_key()) == 2);
}

TEST_CASE("search: when every engine fails in use the fall-back's compute") {
  const Warnings log;
  FakeLibrary library;
  library.engines = {fake_engine(1, 1), fake_engine(2, 9), fake_engine(3, 9)};
  library.engines[0].fails_when_executed = "launch failed";
  for (size_t i = 1; i < 3; ++i) library.engines[i].heuristic = ConvHeuristic::kFallback;
  library.engines[1].info.down_converts = true;
  ConvSearch search(10, library.clock());
  for (int i = 0; i < 2; ++i) CHECK(run(search, library, example_key()) == 3);
  CHECK(library.lists == 1);
  CHECK(search.stats().dropped == 1);
}

TEST_CASE("search: a failed search is not kept, and other exceptions pass through") {
  FakeLibrary library;
  ConvSearch search(10, library.clock());
  CHECK_THROWS_AS(run(search, library, example_key()), CudaError);
  library.when_listed = [] { throw std::runtime_error("stop"); };
  CHECK_THROWS_AS(run(search, library, example_key()), std::runtime_error);
  library.when_listed = {};
  library.engines = {fake_engine(1, 1)};
  CHECK(run(search, library, example_key()) == 1);
  CHECK(search.stats().searches == 1);
  CHECK(search.stats().misses == 3);
}

TEST_CASE("search: an unknown key is refused while the stream is captured") {
  FakeLibrary library;
  library.engines = {fake_engine(1, 2), fake_engine(2, 1)};
  ConvSearch search(10, library.clock());
  library.capturing = true;
  CHECK_THROWS_WITH_AS(run(search, library, example_key()),
                       doctest::Contains("run the step once before the capture"), StateError);
  CHECK(library.timed_runs == 0);
  CHECK(!search.find(example_key()));
  library.capturing = false;
  CHECK(run(search, library, example_key()) == 2);
  const int timed = library.timed_runs;
  library.capturing = true;
  CHECK(run(search, library, example_key()) == 2);  // known from before
  CHECK(library.timed_runs == timed);
}

TEST_CASE("search: limits hold for the searches after them") {
  FakeLibrary library;
  library.engines = {fake_engine(1, 2), fake_engine(2, 1)};
  ConvSearch search(10, library.clock());
  CHECK(search.limits().per_engine == 4);
  CHECK(search.limits().ms == 5000);
  search.set_limits({.ms = 1});
  CHECK(run(search, library, example_key()) == 1);
  search.set_limits({});
  CHECK(run(search, library, example_key()) == 1);
  search.clear();
  CHECK(run(search, library, example_key()) == 2);
}

}  // namespace
}  // namespace lathe
