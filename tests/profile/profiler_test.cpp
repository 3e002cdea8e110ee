// Profiler: what is recorded, and when.
#include "lathe/profile/profiler.h"

#include <doctest/doctest.h>

#include <optional>
#include <stdexcept>

#include "lathe/lathe.h"
#include "lathe/tests/profile/recorded.h"

namespace lathe::profile {
namespace {

TEST_CASE("profiler: records the ranges between its begin and its end, and no others") {
  { const Range before("before"); }
  std::optional<Range> across_begin("across begin");
  Profiler profiler;
  across_begin.reset();
  { const Range inside("inside"); }
  std::optional<Range> across_end("across end");
  profiler.stop();
  across_end.reset();
  { const Range after("after"); }
  const Recording& recording = profiler.recording();
  CHECK(count_named(recording, "inside") == 1);
  for (const char* const name : {"before", "across begin", "across end", "after"})
    CHECK_MESSAGE(count_named(recording, name) == 0, name);
}

TEST_CASE("profiler: a range ends with its scope, also through an exception") {
  Profiler profiler;
  try {
    const Range outer("outer");
    const Range inner("inner");
    throw std::runtime_error("planted");
  } catch (const std::runtime_error&) {
  }
  { const Range next("next"); }
  profiler.stop();
  const Record outer = all_named(profiler.recording(), "outer").at(0);
  const Record inner = all_named(profiler.recording(), "inner").at(0);
  const Record next = all_named(profiler.recording(), "next").at(0);
  CHECK(inner.depth == outer.depth + 1);
  CHECK(next.depth == outer.depth);
  CHECK(outer.begin_ns <= inner.begin_ns);
  CHECK(inner.end_ns <= outer.end_ns);
  CHECK(outer.end_ns <= next.begin_ns);
}

TEST_CASE("profiler: an op that throws ends its range, too") {
  Profiler profiler;
  CHECK_THROWS_AS(matmul(ones({2, 3}), ones({2, 3})), ShapeError);
  { const Range next("next"); }
  profiler.stop();
  CHECK(count_named(profiler.recording(), "matmul") == 1);
  CHECK(all_named(profiler.recording(), "next").at(0).depth ==
        all_named(profiler.recording(), "matmul").at(0).depth);
}

TEST_CASE("profiler: the schedule waits, warms up, records and repeats") {
  int traces = 0;
  std::vector<size_t> kept;
  Profiler profiler({.schedule = {.wait = 2, .warmup = 1, .active = 3, .repeat = 2},
                     .on_trace_ready = [&](Profiler& p) {
                       ++traces;
                       kept.push_back(count_named(p.recording(), "work"));
                     }});
  std::vector<int> steps;
  for (int step = 0; step < 20; ++step) {
    { const Range work("work"); }
    if (recording()) steps.push_back(step);
    profiler.step();
  }
  CHECK(steps == std::vector<int>{2, 3, 4, 5, 8, 9, 10, 11});
  CHECK(kept == std::vector<size_t>{3, 3});
  CHECK(count_named(profiler.recording(), "step") == 3);
  profiler.stop();
  CHECK(traces == 2);
}

TEST_CASE("profiler: without wait and warm-up each repetition is a recording of its own") {
  std::vector<size_t> kept;
  Profiler profiler({.schedule = {.active = 2, .repeat = 0}, .on_trace_ready = [&](Profiler& p) {
                       kept.push_back(count_named(p.recording(), "work"));
                     }});
  for (int step = 0; step < 5; ++step) {
    { const Range work("work"); }
    profiler.step();
  }
  profiler.stop();
  CHECK(kept == std::vector<size_t>{2, 2, 1});
}

TEST_CASE("profiler: a step inside an open range keeps all later ranges") {
  Profiler profiler;
  {
    const Range epoch("epoch");
    { const Range first("first"); }
    profiler.step();
    { const Range second("second"); }
  }
  profiler.step();
  profiler.stop();
  CHECK(count_named(profiler.recording(), "first") == 1);
  CHECK(count_named(profiler.recording(), "second") == 1);
  CHECK(count_named(profiler.recording(), "step") == 3);
}

TEST_CASE("profiler: a second one is refused with the place of the first") {
  Profiler first;
  CHECK_THROWS_WITH_AS(Profiler(), doctest::Contains("the one made at profile/profiler_test.cpp:"),
                       StateError);
  CHECK_THROWS_WITH_AS(first.key_averages(), doctest::Contains("still records"), StateError);
  first.stop();
  Profiler second;  // after stop(), though the first is still there
  second.stop();
  CHECK(second.key_averages().rows().size() == 1);  // "step"
}

TEST_CASE("profiler: impossible options are refused and leave the way free") {
  CHECK_THROWS_WITH_AS(Profiler({.schedule = {.wait = -1, .active = 1}}),
                       doctest::Contains("wait -1"), ValueError);
  CHECK_THROWS_AS(Profiler({.schedule = {.wait = 1}}), ValueError);
  CHECK_THROWS_AS(Profiler({.max_ranges = 0}), ValueError);
  Profiler profiler;
}

TEST_CASE("profiler: ranges beyond the limit are counted, and a warning says so") {
  std::vector<std::string> lines;
  const LogHandler before =
      set_log_handler([&](LogLevel, std::string_view text) { lines.emplace_back(text); });
  Profiler profiler({.max_ranges = 3});
  for (int i = 0; i < 5; ++i) const Range range("range");
  profiler.stop();
  set_log_handler(before);
  CHECK(count_named(profiler.recording(), "range") == 3);
  CHECK(profiler.recording().dropped == 3);  // two of these and the step
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].find("3 ranges are missing: more than 3") != std::string::npos);
}

TEST_CASE("profiler: the name of a range may go before the profiler") {
  Profiler profiler;
  {
    const std::string name = "a name that is too long for any small string";
    const Range range(name);
  }
  profiler.stop();
  CHECK(count_named(profiler.recording(), "a name that is too long for any small string") == 1);
}

TEST_CASE("profiler: memory that a range takes and gives back") {
  Profiler profiler({.profile_memory = true});
  Tensor kept;
  {
    const Range range("outer");
    kept = empty({1024});
    {
      const Range inner("inner");
      const Tensor gone = empty({1 << 16});
    }
    const Range last("last");
    kept = Tensor();
  }
  profiler.stop();
  CHECK(all_named(profiler.recording(), "outer").at(0).memory.host == 0);
  CHECK(all_named(profiler.recording(), "inner").at(0).memory.host == 0);
  CHECK(all_named(profiler.recording(), "last").at(0).memory.host == -4096);
  const int64_t in_use = all_named(profiler.recording(), "inner").at(0).in_use.host;
  CHECK(all_named(profiler.recording(), "last").at(0).in_use.host == in_use - 4096);
}

TEST_CASE("profiler: shapes and dtypes of an op's inputs, without those that are undefined") {
  const Tensor x = ones({2, 3, 8, 8}), w = ones({4, 3, 3, 3});
  Profiler profiler({.record_shapes = true});
  conv2d(x, w);
  profiler.stop();
  const Record conv = all_named(profiler.recording(), "conv2d").at(0);
  CHECK(inputs_text(conv.inputs) == "f32[2,3,8,8], f32[4,3,3,3]");
}

TEST_CASE("profiler: operations and bytes of an op, each input once") {
  const Tensor a = ones({4, 5}), b = ones({5, 6});
  Profiler profiler;
  matmul(a, b);
  add(a, a);
  transpose(a, 0, 1);
  gt(a, 0.5);
  profiler.stop();
  const auto find = [&](const char* name) { return all_named(profiler.recording(), name).at(0); };
  CHECK(find("matmul").flops == 2 * 4 * 5 * 6);
  CHECK(find("matmul").bytes == 4 * (20 + 30 + 24));
  CHECK(find("add").bytes == 4 * (20 + 20));
  CHECK(find("transpose").bytes == 0);
  CHECK(find("gt").bytes == 4 * 20 + 4 + 20);
}

TEST_CASE("profiler: a gradient has the number of its op") {
  const Tensor w = ones({3, 2}).requires_grad_();
  Profiler profiler;
  const Tensor loss = sum(matmul(ones({2, 3}), w));
  loss.backward();
  profiler.stop();
  const Record forward = all_named(profiler.recording(), "matmul").at(0);
  const Record backward = all_named(profiler.recording(), "matmul backward").at(0);
  CHECK(forward.kind == Kind::kOp);
  CHECK(backward.kind == Kind::kBackward);
  CHECK(forward.sequence != 0);
  CHECK(forward.sequence == backward.sequence);
  CHECK(all_named(profiler.recording(), "sum").at(0).sequence ==
        all_named(profiler.recording(), "sum backward").at(0).sequence);
}

}  // namespace
}  // namespace lathe::profile
