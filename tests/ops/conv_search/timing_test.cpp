// Choosing an engine by time: how often each is run, which are, and which wins. Against engines whose
// times the test knows, by a clock of its own.
#include "lathe/ops/conv/search/conv_choice.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "fake_library.h"

namespace lathe {
namespace {

using enum ConvOutcome;

TEST_CASE("benchmark: the fastest engine wins wherever it stands, and all are listed by time") {
  for (const std::vector<double>& times :
       {std::vector<double>{1, 2, 3}, {3, 2, 1}, {2, 1, 3}, {1, 1, 1}}) {
    FakeLibrary library;
    for (const double ms : times)
      library.engines.push_back(fake_engine(std::ssize(library.engines), ms));
    const ConvChoice choice = choose(library, example_key());
    CHECK(choice.chosen == 0);
    const auto fastest = std::min_element(times.begin(), times.end()) - times.begin();
    CHECK(chosen(choice) == fastest);
    for (const ConvEngineResult& result : choice.engines) {
      CHECK(result.outcome == kTimed);
      CHECK(result.ms == times[static_cast<size_t>(result.info.engine.index)]);
    }
    CHECK(!choice.provisional);
    CHECK(choice.search_ms > 0);
  }
}

TEST_CASE("benchmark: the first run is a warm-up, and the median of measurements counts") {
  FakeLibrary library;
  FakeEngine lazy = fake_engine(1, 1);  // loads its code at the first run, and is disturbed once
  lazy.run_ms = {500, 1, 80, 1, 1, 1};
  FakeEngine lucky = fake_engine(2, 1.2);  // one run seems fast
  lucky.run_ms = {1.2, 1.2, 0.1, 1.2, 1.2, 1.2};
  library.engines = {lucky, lazy};
  const ConvChoice choice = choose(library, example_key());
  CHECK(chosen(choice) == 1);
  CHECK(result_of(choice, 1).ms == 1);
  CHECK(result_of(choice, 2).ms == 1.2);
  CHECK(result_of(choice, 1).runs == 15);
  CHECK(library.timed_runs == 2 * (1 + 9 + 15));
}

TEST_CASE("benchmark: the fastest five are timed again, and that decides") {
  FakeLibrary library;
  FakeEngine flattered = fake_engine(1, 1.3);  // as long as its first timing lasts
  flattered.run_ms.assign(10, 0.9);
  library.engines = {flattered, fake_engine(2, 1)};
  for (int i = 3; i < 9; ++i) library.engines.push_back(fake_engine(i, 1.1));
  library.engines.push_back(fake_engine(9, 1.5));
  const ConvChoice choice = choose(library, example_key());
  CHECK(order(choice) == std::vector<int64_t>{2, 3, 4, 5, 1, 6, 7, 8, 9});
  CHECK(choice.chosen == 0);
  CHECK(result_of(choice, 1).ms == doctest::Approx(1.3));
  for (const int64_t again : {1, 2, 3, 4, 5}) CHECK(result_of(choice, again).runs == 15);
  for (const int64_t once : {6, 7, 8}) CHECK(result_of(choice, once).runs == 9);

  library.engines = {fake_engine(1, 1), fake_engine(2, 2)};
  CHECK(result_of(choose(library, example_key()), 1).runs == 9);  // none comes near it
}

TEST_CASE("benchmark: one that fails when it is timed again does not win") {
  FakeLibrary library;
  FakeEngine fails = fake_engine(1, 1);
  fails.run_ms.assign(13, 1);
  fails.run_ms.push_back(-100);  // in its second measurement of that
  library.engines = {fails, fake_engine(2, 1.1)};
  const ConvChoice choice = choose(library, example_key());
  CHECK(chosen(choice) == 2);
  CHECK(result_of(choice, 1).outcome == kFailed);
}

TEST_CASE("benchmark: what is clearly slower is not run to the end") {
  FakeLibrary library;
  FakeEngine disturbed = fake_engine(2, 0.5);  // one slow run must not end it
  disturbed.run_ms = {0.5, 9};
  library.engines = {fake_engine(1, 1), disturbed, fake_engine(3, 100), fake_engine(4, 0.7)};
  const ConvChoice choice = choose(library, example_key());
  CHECK(chosen(choice) == 2);
  CHECK(result_of(choice, 1).runs == 9);
  CHECK(result_of(choice, 2).runs == 15);  // again
  CHECK(result_of(choice, 3).runs == 6);
  CHECK(result_of(choice, 3).ms == 100);
  CHECK(result_of(choice, 4).runs == 15);
}

TEST_CASE(
    "benchmark: runs that an engine did not do count neither for the limit nor in the engine") {
  FakeLibrary library;
  library.engines = {fake_engine(1, 105), fake_engine(2, 160), fake_engine(3, 260),
                     fake_engine(4, 1000), fake_engine(5, 270)};
  for (FakeEngine& engine : library.engines) engine.most_runs = 1;
  library.engines[3].most_runs = 0;  // the time of an earlier run
  const ConvChoice choice = choose(library, example_key());
  CHECK(chosen(choice) == 1);
  CHECK(!choice.provisional);  // 105 * 3 + (160 + 260 + 270) * 2 of 5000 ms
  CHECK(result_of(choice, 1).runs == 3);
  CHECK(result_of(choice, 2).runs == 2);
  CHECK(result_of(choice, 4).runs == 0);
  CHECK(result_of(choice, 4).ms == 1000);
  CHECK(result_of(choice, 5).outcome == kTimed);
}

TEST_CASE("benchmark: at most so many settings of an engine, and every engine") {
  FakeLibrary library;
  for (int i = 0; i < 10; ++i) {
    library.engines.push_back(fake_engine(1, 10 - i));
    library.engines.back().info.engine.setting = {{2, i}};
  }
  library.engines.push_back(fake_engine(2, 9));
  const auto setting = [](const ConvChoice& choice) {
    return choice.info().engine.setting.at(0).second;
  };
  const ConvChoice choice = choose(library, example_key(), {.per_engine = 3, .of_first = 3});
  CHECK(setting(choice) == 2);
  CHECK(library.prepares == 4);
  CHECK(result_of(choice, 2).outcome == kTimed);
  CHECK(choice.engines[4].outcome == kUntried);
  CHECK(choice.engines[4].note == "only 3 settings of this engine are timed");
  CHECK(!choice.provisional);
  CHECK(setting(choose(library, example_key(), {.per_engine = 0, .of_first = 0})) == 9);

  for (size_t i = 0; i < 8; ++i) library.engines[i].refuses_to_prepare = "no";
  CHECK(setting(choose(library, example_key(), {.per_engine = 2, .of_first = 2})) == 9);
}

TEST_CASE("benchmark: more settings of the engine that comes first, and all of a fused pattern") {
  FakeLibrary library;
  for (int engine = 1; engine <= 2; ++engine) {
    for (int i = 0; i < 20; ++i) {
      library.engines.push_back(fake_engine(engine, 100 - i));
      library.engines.back().info.engine.setting = {{2, i}};
    }
  }
  const auto timed_of = [](const ConvChoice& choice, int64_t engine) {
    return std::ranges::count_if(choice.engines, [&](const ConvEngineResult& result) {
      return result.info.engine.index == engine && result.outcome == kTimed;
    });
  };
  const ConvChoice plain = choose(library, example_key(), {.ms = 0});
  CHECK(timed_of(plain, 1) == 16);
  CHECK(timed_of(plain, 2) == 4);
  ConvKey fused = example_key();
  fused.fusion = ConvFusion::kStatistics;
  const ConvChoice all = choose(library, fused, {.ms = 0});
  CHECK(timed_of(all, 1) == 20);
  CHECK(timed_of(all, 2) == 20);
}

TEST_CASE("benchmark: after the time is over no engine is begun, and the choice is provisional") {
  FakeLibrary library;
  for (int i = 0; i < 10; ++i) library.engines.push_back(fake_engine(i, 10 - i));
  library.engines[0].run_ms = {5000};     // the warm-up loads code
  library.engines[1].prepare_ms = 10000;  // compiles
  const ConvChoice choice = choose(library, example_key(), {.ms = 100});
  CHECK(chosen(choice) == 1);
  CHECK(library.prepares == 2);
  CHECK(result_of(choice, 2).note == "engines are timed for at most 100 ms");
  CHECK(choice.provisional);
  // Both again by turns, three runs each, until 100 ms more are measured.
  CHECK(choice.search_ms == 5000 + 9 * 10 + 10000 + 10 * 9 + 2 * 3 * (10 + 9));

  library.engines[0].refuses_to_prepare = "no";
  CHECK(chosen(choose(library, example_key(), {.ms = 1})) == 1);  // the first that works
  const ConvChoice unlimited = choose(library, example_key(), {.ms = 0});
  CHECK(chosen(unlimited) == 9);
  CHECK(!unlimited.provisional);
}

}  // namespace
}  // namespace lathe
