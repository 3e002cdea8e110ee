// Choosing an engine: filters, modes, limits, failures, memory. timing_test.cpp: by time.
#include "lathe/ops/conv/search/conv_choice.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "fake_library.h"
#include "lathe/core/error.h"

namespace lathe {
namespace {

using enum ConvOutcome;

TEST_CASE("heuristics: A and B by turns where engines are timed, else A, and B if A has none") {
  FakeLibrary library;
  for (const int64_t index : {1, 2, 3, 4, 2, 5}) library.engines.push_back(fake_engine(index, 1));
  for (size_t i = 3; i < 6; ++i) library.engines[i].heuristic = ConvHeuristic::kB;
  const ConvChoice timed = choose(library, example_key(), {.ms = 1});
  CHECK(order(timed) == std::vector<int64_t>{1, 4, 2, 3, 5});  // not sorted: one is timed
  CHECK(library.more_lists == 1);

  const ConvKey key = example_key(ConvMode::kHeuristic);
  CHECK(order(choose(library, key)) == std::vector<int64_t>{1, 2, 3});
  CHECK(library.more_lists == 1);
  for (size_t i = 0; i < 3; ++i) library.engines[i].info.down_converts = true;
  CHECK(chosen(choose(library, key)) == 4);
  CHECK(library.more_lists == 2);
}

TEST_CASE("heuristics: the fall-back is asked only if no other engine can be used") {
  for (const ConvMode mode : {ConvMode::kHeuristic, ConvMode::kBenchmark}) {
    FakeLibrary library;
    library.engines = {fake_engine(1, 1), fake_engine(2, 2), fake_engine(3, 0.1)};
    library.engines[1].heuristic = ConvHeuristic::kB;
    library.engines[2].heuristic = ConvHeuristic::kFallback;
    CHECK(chosen(choose(library, example_key(mode))) == 1);
    library.engines[0].refuses_to_prepare = "no";
    CHECK(chosen(choose(library, example_key(mode))) == 2);
    library.engines[1].info.down_converts = true;
    const ConvChoice last = choose(library, example_key(mode));
    CHECK(chosen(last) == 3);
    CHECK(last.engines.size() == 3);
  }
}

TEST_CASE("heuristics: for halves and TF32 engines with tensor cores come first") {
  FakeLibrary library;
  for (int i = 1; i < 5; ++i) library.engines.push_back(fake_engine(i, 1));
  library.engines[2].info.tensor_cores = library.engines[3].info.tensor_cores = true;
  for (const ConvMode mode : {ConvMode::kHeuristic, ConvMode::kDeterministic}) {
    ConvKey key = example_key(mode);
    CHECK(order(choose(library, key)) == std::vector<int64_t>{3, 4, 1, 2});
    key.x.dtype = kF32;
    key.tf32 = true;
    CHECK(order(choose(library, key)) == std::vector<int64_t>{3, 4, 1, 2});
    key.tf32 = false;
    CHECK(order(choose(library, key)) == std::vector<int64_t>{1, 2, 3, 4});
  }
}

TEST_CASE("filters: what may not be used for the key never runs") {
  struct Row {
    const char* what;
    void (*engine)(ConvEngineInfo&);
    void (*key)(ConvKey&);
    bool taken;
  };
  const auto same_key = [](ConvKey&) {};
  const auto f32 = [](ConvKey& k) { k.x.dtype = k.w.dtype = k.y.dtype = kF32; };
  const auto f32_tf32 = [](ConvKey& k) {
    k.x.dtype = k.w.dtype = k.y.dtype = kF32;
    k.tf32 = true;
  };
  const auto repeatable = [](ConvKey& k) { k.mode = ConvMode::kDeterministic; };
  const auto varies = [](ConvEngineInfo& c) { c.deterministic = false; };
  const auto cores = [](ConvEngineInfo& c) { c.tensor_cores = true; };
  const Row rows[] = {
      {"plain", [](ConvEngineInfo&) {}, same_key, true},
      {"not deterministic", varies, same_key, true},
      {"not deterministic, deterministic mode", varies, repeatable, false},
      {"tensor cores, f16", cores, same_key, true},
      {"tensor cores, f32", cores, f32, false},
      {"tensor cores, f32 with TF32", cores, f32_tf32, true},
      {"down-converts", [](ConvEngineInfo& c) { c.down_converts = true; }, same_key, false},
      {"narrow sums", [](ConvEngineInfo& c) { c.narrow_sums = true; }, same_key, false},
      {"compiles", [](ConvEngineInfo& c) { c.compiles = true; }, same_key, true},
      {"negative workspace", [](ConvEngineInfo& c) { c.workspace_bytes = -1; }, same_key, false},
      {"impossible workspace",
       [](ConvEngineInfo& c) { c.workspace_bytes = (int64_t{1} << 40) + 1; }, same_key, false},
  };
  for (const ConvMode mode : {ConvMode::kHeuristic, ConvMode::kBenchmark}) {
    for (const Row& row : rows) {
      INFO(row.what);
      FakeLibrary library;
      library.engines = {fake_engine(1, 1), fake_engine(2, 2)};
      row.engine(library.engines[0].info);
      ConvKey key = example_key(mode);
      row.key(key);
      const ConvChoice choice = choose(library, key);
      CHECK(chosen(choice) == (row.taken ? 1 : 2));
      if (row.taken) continue;
      CHECK(result_of(choice, 1).outcome == kFiltered);
      CHECK(!result_of(choice, 1).note.empty());
      CHECK(library.prepares == 1);
      CHECK(!choice.provisional);
    }
  }
}

TEST_CASE("heuristic and deterministic mode: the first that can be made ready, nothing timed") {
  for (const ConvMode mode : {ConvMode::kHeuristic, ConvMode::kDeterministic}) {
    FakeLibrary library;
    library.engines = {fake_engine(1, 3), fake_engine(2, 2), fake_engine(3, 1)};
    library.engines[0].refuses_to_prepare = "not on this device";
    const ConvChoice choice = choose(library, example_key(mode));
    CHECK(order(choice) == std::vector<int64_t>{1, 2, 3});
    CHECK(chosen(choice) == 2);
    CHECK(result_of(choice, 1).outcome == kFailed);
    CHECK(result_of(choice, 1).note == "not on this device");
    CHECK(result_of(choice, 2).outcome == kReady);
    CHECK(result_of(choice, 3).outcome == kUntried);
    CHECK(library.timed_runs == 0);
    CHECK(!choice.provisional);
  }
}

TEST_CASE("deterministic mode: free memory does not choose the engine") {
  FakeLibrary library;
  library.engines = {fake_engine(1, 1, 1000), fake_engine(2, 2, 0)};
  library.available_bytes = 10;
  CHECK(chosen(choose(library, example_key(ConvMode::kDeterministic))) == 1);
  CHECK(chosen(choose(library, example_key(ConvMode::kHeuristic))) == 2);
}

TEST_CASE("deterministic mode: an engine that lacks memory to be made ready is not passed over") {
  FakeLibrary library;
  library.engines = {fake_engine(1, 1), fake_engine(2, 2)};
  library.engines[0].lacks_memory = true;
  CHECK_THROWS_WITH_AS(choose(library, example_key(ConvMode::kDeterministic)),
                       doctest::Contains("no memory for a plan"), OutOfMemoryError);
  library.engines[0].info.workspace_bytes = 100;
  CHECK(chosen(choose(library, example_key(ConvMode::kHeuristic))) == 2);
}

TEST_CASE("deterministic mode: a workspace above the key's limit is no lack of memory") {
  FakeLibrary library;
  library.engines = {fake_engine(1, 1, int64_t{1} << 31)};
  CHECK_THROWS_AS(choose(library, example_key(ConvMode::kDeterministic)), CudaError);
  CHECK_THROWS_AS(choose(library, example_key(ConvMode::kHeuristic)), OutOfMemoryError);
}

TEST_CASE("engines listed twice are tried once") {
  FakeLibrary library;
  library.engines = {fake_engine(1, 2), fake_engine(2, 1), fake_engine(1, 2)};
  CHECK(order(choose(library, example_key())) == std::vector<int64_t>{2, 1});
  CHECK(library.prepares == 2);
}

TEST_CASE("failures while engines are made ready or timed: the others go on") {
  FakeLibrary library;
  library.engines = {fake_engine(1, 1), fake_engine(2, 2), fake_engine(3, 3)};
  library.engines[0].refuses_to_prepare = "unsupported";
  library.engines[1].fails_when_timed = "misaligned";
  const ConvChoice choice = choose(library, example_key());
  CHECK(order(choice) == std::vector<int64_t>{3, 1, 2});
  CHECK(chosen(choice) == 3);
  CHECK(result_of(choice, 2).outcome == kFailed);
  CHECK(result_of(choice, 2).note == "misaligned");
}

TEST_CASE("no engine at all: the error names the key and every reason") {
  FakeLibrary library;
  library.engines = {fake_engine(1, 1), fake_engine(2, 2), fake_engine(3, 3, int64_t{1} << 31)};
  library.engines[0].refuses_to_prepare = "not on this device";
  library.engines[1].info.down_converts = true;
  const std::string key = concat(example_key());
  for (const ConvMode mode : {ConvMode::kHeuristic, ConvMode::kBenchmark}) {
    CHECK_THROWS_WITH_AS(choose(library, example_key(mode)),
                         doctest::Contains("conv2d: none of 3 engines can be used (1 filtered, 1 "
                                           "too large, 1 failed) for backward_weight none"),
                         CudaError);
  }
  CHECK_THROWS_WITH_AS(choose(library, example_key()), doctest::Contains(key.c_str()), CudaError);
  CHECK_THROWS_WITH_AS(choose(library, example_key()),
                       doctest::Contains("\n  engine 3: needs more workspace than 1 GiB"),
                       CudaError);
  library.engines = {};
  CHECK_THROWS_WITH_AS(choose(library, example_key()), doctest::Contains("none of 0 engines"),
                       CudaError);
  library.engines = {fake_engine(1, 1, int64_t{1} << 31)};
  CHECK_THROWS_AS(choose(library, example_key()), OutOfMemoryError);
}

TEST_CASE("workspace: the key's limit holds for what an engine claims and for what it needs") {
  FakeLibrary library;
  library.engines = {fake_engine(1, 1, 1001), fake_engine(2, 2, 1000), fake_engine(3, 3, 500)};
  library.engines[1].real_workspace_bytes = 1002;
  ConvKey key = example_key();
  key.workspace_limit_bytes = 1000;
  const ConvChoice choice = choose(library, key);
  CHECK(chosen(choice) == 3);
  CHECK(result_of(choice, 1).outcome == kTooLarge);
  CHECK(result_of(choice, 2).outcome == kTooLarge);
  CHECK(result_of(choice, 2).info.workspace_bytes == 1002);
  CHECK(!choice.provisional);
  CHECK(library.prepares == 2);
}

TEST_CASE("workspace: what is free today limits it too, and the choice is provisional") {
  FakeLibrary library;
  library.engines = {fake_engine(1, 1, 1000), fake_engine(2, 2, 500)};
  library.available_bytes = 999;
  const ConvChoice choice = choose(library, example_key());
  CHECK(chosen(choice) == 2);
  CHECK(result_of(choice, 1).outcome == kTooLarge);
  CHECK(choice.provisional);
  library.available_bytes = 10;  // less than any needs: the allocator may still find it
  CHECK(chosen(choose(library, example_key())) == 2);
}

TEST_CASE("out of memory: the limit is halved until something fits") {
  FakeLibrary library;
  library.engines = {fake_engine(1, 1, 1000), fake_engine(2, 2, 900), fake_engine(3, 3, 500),
                     fake_engine(4, 4, 300), fake_engine(5, 5, 100)};
  library.memory_bytes = 400;
  const ConvChoice choice = choose(library, example_key());
  CHECK(chosen(choice) == 5);  // 1000 fails, so 500 is tried; it fails, so at most 250
  CHECK(result_of(choice, 1).note == "no 1000 bytes are free");
  CHECK(result_of(choice, 2).note == "needs more workspace than 500 bytes");
  CHECK(result_of(choice, 3).note == "no 500 bytes are free");
  CHECK(result_of(choice, 4).note == "needs more workspace than 250 bytes");
  CHECK(choice.provisional);
  CHECK(library.timed_runs == 10);
}

TEST_CASE("out of memory: an engine without workspace is taken untimed") {
  FakeLibrary library;
  library.engines = {fake_engine(1, 1), fake_engine(2, 2)};
  library.memory_bytes = -1;  // not even the outputs' scratch
  const ConvChoice choice = choose(library, example_key());
  CHECK(chosen(choice) == 1);
  CHECK(choice.info().workspace_bytes == 0);
  CHECK(choice.provisional);
}

TEST_CASE("without_chosen: the next fastest, then what was not tried, then none") {
  FakeLibrary library;
  library.engines = {fake_engine(1, 2), fake_engine(2, 1), fake_engine(3, 3)};
  ConvChoice choice = choose(library, example_key(), {.ms = 20});
  CHECK(chosen(choice) == 2);
  choice = without_chosen(choice, false, "illegal address");
  CHECK(chosen(choice) == 1);
  CHECK(result_of(choice, 2).outcome == kFailed);
  CHECK(result_of(choice, 2).note == "illegal address");
  CHECK(choice.provisional);
  choice = without_chosen(choice, false, "again");
  CHECK(chosen(choice) == 3);
  CHECK(without_chosen(choice, false, "again").chosen == 3);
}

TEST_CASE("without_chosen: out of memory asks for half the workspace") {
  FakeLibrary library;
  library.engines = {fake_engine(1, 1, 1000), fake_engine(2, 2, 501), fake_engine(3, 3, 500)};
  const ConvChoice choice = without_chosen(choose(library, example_key()), true, "no memory");
  CHECK(chosen(choice) == 3);
  CHECK(result_of(choice, 1).outcome == kTooLarge);
}

TEST_CASE("with_fallback: the first new engine that may be used and needs no more workspace") {
  FakeLibrary library;
  library.engines = {fake_engine(1, 1, 1000), fake_engine(2, 1), fake_engine(3, 1, 600),
                     fake_engine(1, 1, 1000), fake_engine(4, 1, 500)};
  ConvChoice choice = choose(library, example_key(ConvMode::kHeuristic));
  for (FakeEngine& engine : library.engines) engine.heuristic = ConvHeuristic::kFallback;
  library.engines[1].info.narrow_sums = true;
  choice.engines.resize(1);
  FakeEngines engines(library);
  choice = without_chosen(choice, true, "no memory");
  CHECK(choice.chosen == 1);
  choice = with_fallback(example_key(), engines, choice, 500);
  CHECK(order(choice) == std::vector<int64_t>{1, 2, 3, 4});
  CHECK(chosen(choice) == 4);
  CHECK(with_fallback(example_key(), engines, choice, 500).chosen == 4);  // nothing new
}

TEST_CASE("outcomes: names lead to outcomes and back") {
  for (const ConvOutcome outcome : {kTimed, kReady, kUntried, kFiltered, kTooLarge, kFailed})
    CHECK(conv_outcome_from_name(name_of(outcome)) == outcome);
  CHECK_THROWS_WITH_AS(conv_outcome_from_name("best"), doctest::Contains("called \"best\""),
                       DataError);
}

}  // namespace
}  // namespace lathe
