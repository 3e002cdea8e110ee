// StepGraphs: which batches are launched, and what happens if a step cannot be recorded.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "../cuda_case.h"
#include "lathe/core/cuda.h"
#include "lathe/core/error.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/reduce.h"
#include "lathe/tools/cli/training/step_graphs.h"

using namespace lathe;

namespace {

const Device kGpu(DeviceType::kCUDA);

/// Batch i has n images and only the value i.
cli::StepTensors batch(int64_t n, double i) {
  return {.x = full({n, 3}, i, {.device = kGpu}),
          .y = full({n}, i, {.dtype = kI64, .device = kGpu}),
          .scores = {},
          .loss = {}};
}

}  // namespace

TEST_CASE("step graphs: two batches of a shape are the caller's, the third is recorded" *
          test::cuda_case()) {
  const Tensor weight = zeros({}, {.device = kGpu});
  int called = 0;
  const cli::StepGraphs::Work work = [&](cli::StepTensors& step) {
    ++called;
    step.scores = mul(step.x, 2.0);
    step.loss = sum(step.scores);
    weight.add_(step.loss);
  };
  cli::StepGraphs graphs({});
  std::vector<bool> launched;
  double expected = 0;
  for (const auto& [n, i] : std::vector<std::pair<int64_t, double>>{
           {4, 1}, {2, 2}, {4, 3}, {4, 4}, {2, 5}, {4, 6}, {2, 7}, {4, 8}}) {
    const cli::StepTensors in = batch(n, i);
    launched.push_back(graphs.takes({in.x, in.y}, {}, work));
    if (!launched.back()) continue;
    const cli::StepTensors& out = graphs.launch({in.x, in.y});
    const double loss = 2.0 * 3.0 * static_cast<double>(n) * i;
    expected += loss;
    CHECK(out.loss.item<double>() == loss);
    CHECK(out.y.to(kCPU).to_vector<int64_t>() ==
          std::vector<int64_t>(static_cast<size_t>(n), static_cast<int64_t>(i)));
    CHECK(weight.item<double>() == expected);
  }
  CHECK(launched == std::vector<bool>{false, false, false, true, false, true, true, true});
  CHECK(called == 2);
  CHECK(graphs.recorded() == 2);
  CHECK_FALSE(graphs.has_problem());
}

TEST_CASE("step graphs: a step that cannot be recorded is left to the caller for good" *
          test::cuda_case()) {
  int called = 0;
  const cli::StepGraphs::Work work = [&](cli::StepTensors& step) {
    ++called;
    step.scores = mul(step.x, sum(step.x).item<double>());
    step.loss = sum(step.scores);
  };
  cli::StepGraphs graphs({});
  for (int i = 0; i < 5; ++i) {
    const cli::StepTensors in = batch(4, i);
    CHECK_FALSE(graphs.takes({in.x, in.y}, {}, work));
    CHECK(graphs.has_problem() == (i == 2));
    CHECK(graphs.recorded() == 0);
    const std::string problem = graphs.take_problem();
    if (i == 2) CHECK(problem.find("item: the host waits for the GPU") != std::string::npos);
  }
  CHECK(called == 1);
}

TEST_CASE("step graphs: a step that another process cannot record is left to the caller, too" *
          test::cuda_case()) {
  int called = 0;
  const Tensor weight = zeros({}, {.device = kGpu});
  const cli::StepGraphs::Work work = [&](cli::StepTensors& step) {
    ++called;
    step.scores = mul(step.x, 2.0);
    step.loss = sum(step.scores);
    weight.add_(step.loss);
  };
  std::vector<std::string> told;
  std::string answer;
  const cli::StepGraphs::Agree agree = [&](const std::string& problem) {
    told.push_back(problem);
    return answer;
  };
  cli::StepGraphs graphs({});
  const auto takes = [&](int64_t n, const cli::StepGraphs::Work& f) {
    const cli::StepTensors in = batch(n, 1);
    return graphs.takes({in.x, in.y}, {}, f, agree);
  };
  answer = "rank 1: it cannot";
  for (int i = 0; i < 5; ++i) CHECK_FALSE(takes(4, work));
  CHECK(told == std::vector<std::string>{""});  // after the recording, and never again
  CHECK(graphs.take_problem() == answer);
  CHECK(called == 1);
  CHECK(graphs.recorded() == 0);
  CHECK(weight.item<double>() == 0);  // nothing has run
  answer = "";
  for (int i = 0; i < 5; ++i) CHECK(takes(2, work) == (i >= 2));
  CHECK(told == std::vector<std::string>{"", ""});
  CHECK(graphs.recorded() == 1);
  const auto waits = [](cli::StepTensors& step) {
    step.loss = mul(step.x, sum(step.x).item<double>());
  };
  answer = "rank 0: this one";
  for (int i = 0; i < 3; ++i) CHECK_FALSE(takes(3, waits));
  CHECK(told.size() == 3);
  CHECK(told.back().find("item: the host waits for the GPU") != std::string::npos);
  CHECK(graphs.take_problem() == answer);
}

// The steps that are queued instead need it themselves.
TEST_CASE("step graphs: a recording that comes to nothing keeps no memory" * test::cuda_case()) {
  std::string answer = "rank 1: it cannot";
  const cli::StepGraphs::Agree agree = [&](const std::string& problem) {
    return problem.empty() ? answer : problem;
  };
  bool throws = false;
  Tensor left;  // as a gradient is by a backward pass that fails
  const cli::StepGraphs::Work work = [&](cli::StepTensors& step) {
    step.scores = mul(step.x, 2.0);
    step.loss = sum(step.scores);
    if (throws) left = step.scores;
    if (throws) LATHE_FAIL(OutOfMemoryError, "no memory");
  };
  cli::StepGraphs graphs({});
  const cli::StepTensors some = batch(400'000, 1), others = batch(300'000, 1),
                         good = batch(200'000, 1);
  const auto tries = [&](const cli::StepTensors& in) {
    for (int i = 0; i < 2; ++i) CHECK_FALSE(graphs.takes({in.x, in.y, true}, {}, work, agree));
    const bool takes = graphs.takes({in.x, in.y, true}, {}, work, agree);
    left = {};
    if (!takes) graphs.give_pool_back();
    return takes;
  };
  cuda::empty_cache();
  const auto before = cuda::memory_reserved();
  CHECK_FALSE(tries(some));
  CHECK(cuda::memory_reserved() == before);
  throws = true;
  CHECK_FALSE(tries(others));
  CHECK(cuda::memory_reserved() == before);
  throws = false;
  answer = "";
  CHECK(tries(good));
  CHECK(cuda::memory_reserved() > before);
  CHECK(graphs.launch({good.x, good.y, true}).loss.item<double>() == 2 * 600'000);
}

TEST_CASE("step graphs: kinds of steps have graphs of their own, in one pool" * test::cuda_case()) {
  const cli::StepGraphs::Work twice = [](cli::StepTensors& step) {
    step.scores = mul(add(step.x, 0.0), 2.0);
    step.loss = sum(step.scores);
  };
  const cli::StepGraphs::Work thrice = [](cli::StepTensors& step) {
    step.scores = mul(add(step.x, 0.0), 3.0);
    step.loss = sum(step.scores);
  };
  const cli::StepKind evaluation{.evaluation = true};
  cli::StepGraphs graphs({});
  size_t reserved = 0;
  for (int i = 0; i < 6; ++i) {
    const cli::StepTensors in = batch(400, i);
    for (const bool evaluates : {false, true}) {
      const bool takes = evaluates ? graphs.takes({in.x, in.y}, evaluation, thrice)
                                   : graphs.takes({in.x, in.y}, {}, twice);
      CHECK(takes == (i >= 2));
      if (!takes) continue;
      CHECK(graphs.launch({in.x, in.y}).loss.item<double>() == (evaluates ? 3 : 2) * 1200.0 * i);
      if (i == 2 && !evaluates) reserved = cuda::memory_reserved();
      if (i == 2 && evaluates) CHECK(cuda::memory_reserved() == reserved);
    }
  }
}

TEST_CASE("step graphs: one is not launched while the state has other memory" * test::cuda_case()) {
  const Tensor weight = full({}, 2.0, {.device = kGpu});
  const Tensor other = full({}, 5.0, {.device = kGpu});
  const cli::StepGraphs::Work work = [&](cli::StepTensors& step) {
    step.scores = mul(step.x, weight);
    step.loss = sum(step.scores);
  };
  cli::StepGraphs graphs({weight});
  const cli::StepTensors in = batch(4, 1);
  for (int i = 0; i < 2; ++i) CHECK_FALSE(graphs.takes({in.x, in.y}, {}, work));
  CHECK(graphs.takes({in.x, in.y}, {}, work));
  const Tensor own = weight.detach();
  weight.set_data(other);
  CHECK_FALSE(graphs.takes({in.x, in.y}, {}, work));
  weight.set_data(own);
  CHECK(graphs.takes({in.x, in.y}, {}, work));
  CHECK(graphs.launch({in.x, in.y}).loss.item<double>() == 24);
}

TEST_CASE("step graphs: there is a limit to their number" * test::cuda_case()) {
  const cli::StepGraphs::Work work = [](cli::StepTensors& step) {
    step.scores = mul(step.x, 2.0);
    step.loss = sum(step.scores);
  };
  cli::StepGraphs graphs({});
  const auto takes = [&](int64_t n) {
    const cli::StepTensors in = batch(n, 1);
    return graphs.takes({in.x, in.y}, {}, work);
  };
  constexpr auto kMost = static_cast<int64_t>(cli::StepGraphs::kMostKinds);
  for (int round = 0; round < 3; ++round) {
    for (int64_t n = 1; n <= kMost + 1; ++n) CHECK(takes(n) == (round == 2 && n <= kMost));
  }
}

TEST_CASE("step graphs: batches in places are read there, by a graph for each place" *
          test::cuda_case()) {
  cli::StepGraphs graphs({});
  const cli::StepGraphs::Work work = [](cli::StepTensors& step) {
    step.scores = mul(step.x, 2.0);
    step.loss = sum(step.scores);
  };
  const cli::StepTensors places[] = {batch(4, 0), batch(4, 0), batch(4, 0)};
  const auto takes = [&](size_t place) {
    const auto& [x, y, scores, loss] = places[place];
    return graphs.takes({x, y, true}, {}, work);
  };
  for (const size_t eager : {0, 1}) CHECK_FALSE(takes(eager));
  for (int i = 0; i < 4; ++i) {
    const auto& [x, y, scores, loss] = places[i % 2];
    x.fill_(static_cast<double>(i));
    CHECK(takes(static_cast<size_t>(i % 2)));
    const cli::StepTensors& out = graphs.launch({x, y, true});
    CHECK(out.x.raw_data() == x.raw_data());
    CHECK(out.loss.item<double>() == 24.0 * i);
  }
  CHECK(graphs.recorded() == 2);
  CHECK_FALSE(takes(2));  // there are no more than two
  const cli::StepTensors elsewhere = batch(4, 5);
  CHECK_FALSE(graphs.takes({elsewhere.x, elsewhere.y}, {}, work));
}
