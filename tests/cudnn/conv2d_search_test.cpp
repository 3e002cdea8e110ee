// How convolutions search among cuDNN's engines, over the emulated cuDNN: what is listed, what is
// timed, and in which memory.
#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "cudnn_problem.h"
#include "lathe/tests/emulation/cudnn_emulation.h"

using namespace lathe;
using namespace lathe::test;
using emulation::cudnn_probe;
using Fixture = CudnnFixture;
using Problem = CudnnProblem;

TEST_CASE("search: benchmark mode times the engines and keeps the winner's plan only") {
  Fixture f;
  cudnn::set_benchmark(true);
  const Problem p(4, 6, 13);
  const size_t plans = cudnn_probe().plans;
  p.check(p.forward());
  CHECK(cudnn_probe().plans == plans + 1);
  const auto choices = conv_search().choices();
  REQUIRE(choices.size() == 1);
  CHECK(choices[0].second->engines.size() == 3);  // 5, 3, 4: the second 3 counts once
  CHECK(choices[0].second->info().workspace_bytes ==
        cudnn_probe().executions.back().workspace_bytes);
}

TEST_CASE("search: of 60 each is timed, wherever it stands, but few settings of each") {
  Fixture f;
  cudnn::set_benchmark(true);
  cudnn::set_search_limits({.of_first = 4, .ms = 0});
  cudnn_probe().offers_many = true;
  const Problem p(2, 2, 5);
  p.check(p.forward());
  const auto choices = conv_search().choices();
  REQUIRE(choices.size() == 1);
  std::map<int64_t, int> timed, untried;  // settings per engine
  for (const ConvEngineResult& result : choices[0].second->engines) {
    if (result.outcome == ConvOutcome::kTimed) ++timed[result.info.engine.index];
    if (result.outcome == ConvOutcome::kUntried) ++untried[result.info.engine.index];
  }
  CHECK(timed.size() == 57);  // 3, 4, 9 and 100 to 153; 5 is filtered, 0 and 7 are not offered
  CHECK(timed[9] == 4);
  CHECK(untried == std::map<int64_t, int>{{4, 2}, {9, 16}});
  CHECK(!choices[0].second->provisional);
}

TEST_CASE("search: 16 settings of the engine that comes first, 4 of others, all of a pattern") {
  Fixture f;
  cudnn::set_benchmark(true);
  cudnn_probe().offers_many = true;
  const Problem p(2, 2, 7), half(8, 8, 7, kF16);
  const auto fused = [&] {
    Tensor sums;
    const Tensor w = Problem::on_gpu(half.w).contiguous(kChannelsLast);
    cuda::conv2d_forward_with_sums(half.g, Problem::on_gpu(half.x), w, sums);
  };
  // Settings that were timed, by engine.
  const auto timed = [](ConvFusion fusion, bool provisional) {
    std::map<int64_t, int> all;
    for (const auto& [key, choice] : conv_search().choices()) {
      if (key.fusion != fusion) continue;
      CHECK(choice->provisional == provisional);
      for (const ConvEngineResult& result : choice->engines) {
        if (result.outcome == ConvOutcome::kTimed) ++all[result.info.engine.index];
      }
    }
    return all;
  };
  cudnn::set_search_limits({.ms = 0});
  p.forward();
  auto plain = timed(ConvFusion::kNone, false);
  CHECK(plain[9] == 16);
  CHECK(plain[4] == 4);
  conv_search().clear();
  fused();
  CHECK(timed(ConvFusion::kStatistics, false) ==
        std::map<int64_t, int>{{kSplitEngine, 1}, {8, 11}});

  cudnn::set_search_limits({.ms = 1e-9});  // over with the first that is measured
  conv_search().clear();
  p.forward();
  CHECK(timed(ConvFusion::kNone, true) == std::map<int64_t, int>{{9, 1}});
  conv_search().clear();
  fused();
  CHECK(timed(ConvFusion::kStatistics, true) == std::map<int64_t, int>{{kSplitEngine, 1}});
}

TEST_CASE("search: the graphs that are timed take turns in one pool of memory") {
  Fixture f;
  cudnn::set_benchmark(true);
  cudnn_probe().offers_many = true;
  const size_t before = cuda::memory_reserved(kGpu);
  for (const int64_t size : {9, 11, 13, 15}) {
    const Problem p(8, 8, size, kF16);
    const Tensor x = Problem::on_gpu(p.x), w = Problem::on_gpu(p.w).contiguous(kChannelsLast);
    Tensor sums;
    cuda::conv2d_forward_with_sums(p.g, x, w, sums);
    CHECK(conv_search().choices().at(0).second->engines.size() == 12);
  }
  // The split engine is measured three times or more, each time by a graph that takes 2 MiB.
  CHECK(cuda::memory_reserved(kGpu) - before < size_t{16} << 20);
}

TEST_CASE(
    "search: timed runs use copies that fill the L2 cache twice, the call's own are its own") {
  Fixture f;
  cudnn::set_benchmark(true);
  const int64_t l2 = 1 << 16;
  for (const auto& [size, copies] : {std::pair<int64_t, size_t>{12, 14}, {46, 1}}) {
    const Problem p(4, 4, size);
    cudnn_probe().executions.clear();
    const size_t before = cuda::memory_allocated(kGpu);
    Tensor y = p.forward();
    p.check(y);
    const auto& runs = cudnn_probe().executions;
    std::set<void*> inputs, outputs;
    for (size_t i = 0; i + 1 < runs.size(); ++i) {
      inputs.insert(runs[i].addresses[0]);
      outputs.insert(runs[i].addresses[2]);
    }
    CHECK(inputs.size() == copies);
    CHECK(outputs.size() == copies);
    CHECK(outputs.count(y.raw_data()) == 0);
    CHECK(runs.back().addresses[2] == y.raw_data());
    CHECK((copies == 1) == (runs[0].addresses[0] == runs.back().addresses[0]));
    const auto padded = [](int64_t bytes) { return (bytes + 255) / 256 * 256; };
    const int64_t one = padded(p.x.bytes()) + padded(p.w.bytes()) + padded(y.bytes());
    CHECK(static_cast<int64_t>(copies) == (2 * l2 + one - 1) / one);
    y = {};
    CHECK(cuda::memory_allocated(kGpu) == before);
  }
}

// A graph that is launched again finds the tensors of a small layer in the cache.
TEST_CASE("search: candidates are timed within graphs, and each run of a graph on other copies") {
  Fixture f;
  cudnn::set_benchmark(true);
  const Problem p(8, 8, 10, kF16);
  const Tensor x = Problem::on_gpu(p.x), dy = Problem::on_gpu(p.dy),
               w = Problem::on_gpu(p.w).contiguous(kChannelsLast);
  const auto fused = [&] {
    Tensor sums;
    cuda::conv2d_forward_with_sums(p.g, x, w, sums);
  };
  const struct {
    ConvPass pass;
    ConvFusion fusion;
    std::function<void()> run;
  } searches[] = {
      {ConvPass::kForward, ConvFusion::kNone, [&] { cuda::conv2d_forward(p.g, x, w, {}); }},
      {ConvPass::kBackwardInput, ConvFusion::kNone,
       [&] { cuda::conv2d_backward_input(p.g, dy, w); }},
      {ConvPass::kBackwardWeight, ConvFusion::kNone,
       [&] { cuda::conv2d_backward_weight(p.g, dy, x, kChannelsLast); }},
      {ConvPass::kForward, ConvFusion::kStatistics, fused}};
  for (const auto& [pass, fusion, run] : searches) {
    forget_executions();
    const uint64_t before = cudnn_probe().ran;
    run();
    cuda::synchronize(kGpu);
    const auto& runs = cudnn_probe().executions;
    CHECK(cudnn_probe().ran - before == runs.size());  // no graph was launched twice
    for (const auto& [key, choice] : conv_search().choices()) {
      if (key.pass != pass || key.fusion != fusion) continue;
      for (const ConvEngineResult& result : choice->engines) {
        const int64_t engine = result.info.engine.index;
        if (result.outcome != ConvOutcome::kTimed || engine == kSplitEngine) continue;
        INFO(concat(key), ", engine ", engine);
        CHECK(result.runs >= 6);
        CHECK(std::ranges::count_if(runs, [&](const emulation::CudnnExecution& done) {
                return done.captured && done.engine == engine;
              }) >= result.runs);
      }
    }
  }
}

TEST_CASE("search: an engine that cannot be captured is given up, and leaves nothing behind") {
  Fixture f;
  cudnn::set_benchmark(true);
  cudnn_probe().uncapturable = {3};
  const Problem p(4, 6, 31);
  const size_t before = cuda::memory_allocated(kGpu);
  p.check(p.forward());
  CHECK(cuda::memory_allocated(kGpu) == before);
  CHECK(cudaGetLastError() == cudaSuccess);
  const auto choices = conv_search().choices();
  REQUIRE(choices.size() == 1);
  CHECK(choices[0].second->info().engine.index == 4);
  for (const ConvEngineResult& result : choices[0].second->engines) {
    if (result.info.engine.index == 3) CHECK(result.outcome == ConvOutcome::kFailed);
  }
}

TEST_CASE("search: without memory for copies the runs share the inputs") {
  Fixture f;
  cudnn::set_benchmark(true);
  const Problem p(4, 4, 29);
  const Tensor x = Problem::on_gpu(p.x);
  const Tensor w = Problem::on_gpu(p.w).contiguous(kChannelsLast);
  FaultPoint& point = cuda::allocation_fault(kGpu);
  const ArmedFault fault(point, 2);  // the first is the result
  const Tensor y = cuda::conv2d_forward(p.g, x, w, {});
  p.check(y);
  REQUIRE(cudnn_probe().executions.size() > 2);
  for (const auto& run : cudnn_probe().executions) CHECK(run.addresses[0] == x.raw_data());
  CHECK(conv_search().choices().at(0).second->engines[0].runs > 0);
}

TEST_CASE("search: for halves the first with tensor cores, whatever stands before it") {
  Fixture f;
  cudnn_probe().offers_many = true;
  const Problem half(8, 8, 5, kF16), single(8, 8, 5);
  half.check(half.forward());
  CHECK(cudnn_probe().last_engine() == 7);
  single.check(single.forward());
  CHECK(cudnn_probe().last_engine() == 9);
}

TEST_CASE("search: one that cannot be described is missing, its heuristic's others are not") {
  Fixture f;
  cudnn_probe().indescribable = {5, 3};
  const Problem p(4, 6, 28);
  p.check(p.forward());
  CHECK(cudnn_probe().last_engine() == 4);
  const auto choices = conv_search().choices();
  REQUIRE(choices.size() == 1);
  CHECK(choices[0].second->engines.size() == 1);
}
