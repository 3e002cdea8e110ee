// StepGraph: which batches are launched, and what happens if a step cannot be recorded.
#include <doctest/doctest.h>

#include <vector>

#include "../cuda_case.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/reduce.h"
#include "lathe/tools/cli/training/step_graph.h"

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

TEST_CASE("step graph: two batches of a shape are the caller's, the third is recorded" *
          test::cuda_case()) {
  const Tensor weight = zeros({}, {.device = kGpu});
  int called = 0;
  const cli::StepGraph::Work work = [&](cli::StepTensors& step) {
    ++called;
    step.scores = mul(step.x, 2.0);
    step.loss = sum(step.scores);
    weight.add_(step.loss);
  };
  cli::StepGraph graph;
  std::vector<bool> launched;
  double expected = 0;
  for (const auto& [n, i] : std::vector<std::pair<int64_t, double>>{
           {4, 1}, {2, 2}, {4, 3}, {4, 4}, {4, 5}, {2, 6}, {4, 7}}) {
    const cli::StepTensors in = batch(n, i);
    launched.push_back(graph.takes(in.x, in.y, work));
    if (!launched.back()) continue;
    const cli::StepTensors& out = graph.launch(in.x, in.y);
    expected += 2 * 12 * i;
    CHECK(out.loss.item<double>() == 2 * 12 * i);
    CHECK(out.y.to(kCPU).to_vector<int64_t>() == std::vector<int64_t>(4, static_cast<int64_t>(i)));
    CHECK(weight.item<double>() == expected);
  }
  CHECK(launched == std::vector<bool>{false, false, false, false, true, false, true});
  CHECK(called == 1);
  CHECK(graph.problem().empty());
}

TEST_CASE("step graph: a step that cannot be recorded is left to the caller for good" *
          test::cuda_case()) {
  int called = 0;
  const cli::StepGraph::Work work = [&](cli::StepTensors& step) {
    ++called;
    step.scores = mul(step.x, sum(step.x).item<double>());
    step.loss = sum(step.scores);
  };
  cli::StepGraph graph;
  for (int i = 0; i < 5; ++i) {
    const cli::StepTensors in = batch(4, i);
    CHECK_FALSE(graph.takes(in.x, in.y, work));
  }
  CHECK(called == 1);
  CHECK(graph.problem().find("the host cannot wait") != std::string::npos);
}
