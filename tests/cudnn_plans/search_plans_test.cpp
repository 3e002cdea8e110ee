// What a search times of the convolutions of ResNet-18 on a GPU that is described and not there, and
// how long it takes: cuDNN's own heuristics and plans, made here, and kernels that take as long as
// `lathe plan` says (train/plan/gpu_model.h). The search is the product's.
#include <doctest/doctest.h>

#include <algorithm>
#include <ctime>
#include <map>
#include <string>
#include <vector>

#include "../cudnn/conv_keys.h"
#include "can_plan.h"
#include "lathe/core/gpu/cudnn_described.h"
#include "lathe/ops/conv/cudnn/conv2d_graph_cudnn.h"
#include "lathe/ops/conv/search/conv2d_key.h"
#include "lathe/ops/conv/search/conv_choice.h"
#include "lathe/train/plan/gpu_model.h"

using namespace lathe;
using namespace lathe::test;
using plan::Launch;
using plan::LaunchKind;

namespace {

/// Of recording and instantiating the graph of a measurement, on the host: an estimate.
constexpr double kGraphMs = 0.05;

double processor_ms() { return 1e3 * static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

/// Milliseconds that the model gives the convolution, and the kernels around it that a fused one
/// replaces.
struct ModelMs {
  double convolution = 0, around = 0;
};

ModelMs model_ms(const ConvKey& key, const Conv2dGeometry& g, const GpuDescription& gpu) {
  const auto bytes = [](const Shape& shape) { return 2.0 * static_cast<double>(numel_of(shape)); };
  const double x = bytes(g.x_shape()), w = bytes(g.w_shape()), y = bytes(g.y_shape());
  const auto ms = [&](const Launch& launch) {
    return 1e3 * plan::seconds_of(launch, gpu, plan::kFast);
  };
  const auto norm = [&](LaunchKind kind, double read, double written) {
    return ms({.kind = kind, .dtype = kF16, .read_bytes = read, .written_bytes = written});
  };
  const double convolution = ms({.kind = LaunchKind::kConvolution,
                                 .library = true,
                                 .dtype = kF16,
                                 .read_bytes = x + w,
                                 .written_bytes = y,
                                 .flops = g.flops()});
  const double statistics = norm(LaunchKind::kBatchNormForward, y, 0);
  switch (key.fusion) {
    case ConvFusion::kStatistics: return {convolution, statistics};
    case ConvFusion::kNormRelu:
      return {convolution, norm(LaunchKind::kBatchNormForward, x, x) +
                               (key.pass == ConvPass::kForward ? statistics : 0)};
    case ConvFusion::kReluNorm:
      return {convolution, norm(LaunchKind::kBatchNormBackward, 2 * x, 0) +
                               norm(LaunchKind::kBatchNormBackward, 2 * x, x)};
    default: return {convolution, 0};
  }
}

/// The engines of a described GPU. Its time is the processor's for heuristics and plans, and the
/// model's for all runs: those before a measurement too, one for itself and one in the graph.
class ModelledEngines final : public ConvEngines {
 public:
  ModelledEngines(const ConvKey& key, const cudnn::Descriptor& gpu, const ModelMs& ms)
      : gpu_(gpu), graph_(cuda::conv2d_graph(key)), ms_(ms), fused_(key.fusion != ConvFusion{}) {}

  std::vector<ConvEngineInfo> suggested(ConvHeuristic heuristic) override {
    auto all = cuda::conv2d_suggested(graph_, heuristic, found_, &gpu_);
    if (fused_ && heuristic == ConvHeuristic::kA)
      all.insert(all.begin(), {.engine = {kSplitEngine, {}}, .tensor_cores = true});
    return all;
  }
  int64_t prepare(const ConvEngine& engine) override {
    if (engine.index == kSplitEngine) return 0;
    const cudnn::Descriptor plan = cudnn::plan_for(found_.at(engine), gpu_);
    return plan.get<int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
  }
  ConvTime time(const ConvEngine& engine, int runs) override {
    const double ms = ms_.convolution + (engine.index == kSplitEngine ? ms_.around : 0);
    gpu_ms_ += ms * (2 + runs) + kGraphMs;
    return {ms, runs};
  }
  void execute(const ConvEngine&) override {}
  int64_t available_bytes() override { return INT64_MAX; }
  bool capturing() override { return false; }

  double gpu_ms() const { return gpu_ms_; }

 private:
  const cudnn::Descriptor& gpu_;
  const cudnn::OperationGraph graph_;
  const ModelMs ms_;
  const bool fused_;
  cuda::Conv2dConfigs found_;
  double gpu_ms_ = 0;
};

/// What one search did. The split engine is no setting.
struct Search {
  std::map<int64_t, int> listed, timed;  // settings by engine, those that the key's filters leave
  int64_t leading = 0;                   // leading_engine()
  double host_ms = 0, gpu_ms = 0;
  bool provisional = false;

  int sum(const std::map<int64_t, int>& settings) const {
    int all = 0;
    for (const auto& [engine, count] : settings) all += count;
    return all;
  }
};

/// The first of heuristic A with tensor cores; if there is none, its first.
int64_t leading_engine(const ConvKey& key, const cudnn::Descriptor& gpu) {
  cuda::Conv2dConfigs configs;
  const auto all =
      cuda::conv2d_suggested(cuda::conv2d_graph(key), ConvHeuristic::kA, configs, &gpu);
  const auto with = std::ranges::find_if(all, &ConvEngineInfo::tensor_cores);
  return (with == all.end() ? all.front() : *with).engine.index;
}

Search search(const ConvKey& key, const cudnn::Descriptor& gpu, const ModelMs& ms,
              const ConvLimits& limits) {
  const double before = processor_ms();
  ModelledEngines engines(key, gpu, ms);
  const ConvChoice choice = choose_engine(key, engines, limits, processor_ms, true);
  Search found{.host_ms = processor_ms() - before, .gpu_ms = engines.gpu_ms()};
  found.provisional = choice.provisional;
  found.leading = leading_engine(key, gpu);
  for (const ConvEngineResult& result : choice.engines) {
    const int64_t engine = result.info.engine.index;
    if (engine == kSplitEngine || !result.usable()) continue;
    ++found.listed[engine];
    found.timed[engine] += result.outcome == ConvOutcome::kTimed;
  }
  return found;
}

struct Problem {
  std::string name;
  ConvKey key;
  Conv2dGeometry sizes;
};

/// The 32 of a step in fp16, and the patterns of training that the library uses in it.
std::vector<Problem> problems_of_resnet18(bool fused) {
  std::vector<Problem> all;
  const auto add = [&](const Conv2dCase& c, ConvPass pass, ConvFusion fusion) {
    const Conv2dGeometry sizes = conv2d_padded(geometry_of(c), kChannelsLast, kF16);
    ConvKey key = conv2d_key(pass, sizes, kChannelsLast, kF16);
    key.mode = ConvMode::kBenchmark;
    key.fusion = fusion;
    all.push_back({c.name, key, sizes});
  };
  for (const Conv2dCase& c : resnet18_convolutions(512)) {
    const bool cifar = c.x[2] <= 32 && c.x[2] % 7 != 0, stem = c.x[1] == 3;
    const bool behind_a_relu = c.x[1] == c.w[0];
    if (!cifar || (fused && stem)) continue;
    for (const ConvPass pass : kPasses) {
      if (!fused && !(stem && pass == ConvPass::kBackwardInput)) add(c, pass, ConvFusion::kNone);
    }
    if (!fused) continue;
    add(c, ConvPass::kForward, ConvFusion::kStatistics);
    if (!behind_a_relu) continue;
    add(c, ConvPass::kForward, ConvFusion::kNormRelu);
    add(c, ConvPass::kBackwardInput, ConvFusion::kReluNorm);
    add(c, ConvPass::kBackwardWeight, ConvFusion::kNormRelu);
  }
  return all;
}

/// How many settings were timed before there was a limit of its own for the leading engine.
int timed_before(const Search& search) {
  int all = 0;
  for (const auto& [engine, count] : search.listed) all += std::min(count, 4);
  return all;
}

}  // namespace

TEST_SUITE_BEGIN("cudnn search plans" * doctest::skip(!can_plan()) *
                 doctest::description("no cuDNN 9.8 or later"));

TEST_CASE("cudnn search plans: 16 settings of the leading engine, 4 of others, all of a pattern") {
  const GpuDescription described = gpu_description("h100");
  const cudnn::Descriptor gpu = cudnn::device_properties(described);
  for (const bool fused : {false, true}) {
    const std::vector<Problem> problems = problems_of_resnet18(fused);
    CHECK(problems.size() == (fused ? 22 : 32));
    int listed = 0, timed = 0, before = 0;
    double seconds = 0;
    for (const auto& [name, key, sizes] : problems) {
      INFO(name, " ", concat(key));
      const Search s = search(key, gpu, model_ms(key, sizes, described), {});
      for (const auto& [engine, count] : s.listed) {
        const int most = fused ? count : engine == s.leading ? 16 : 4;
        CHECK(s.timed.at(engine) == std::min(count, most));
      }
      CHECK(!s.provisional);  // its limit of time leaves room
      listed += s.sum(s.listed);
      timed += s.sum(s.timed);
      before += timed_before(s);
      seconds += (s.host_ms + s.gpu_ms) / 1e3;
    }
    MESSAGE(std::string(fused ? "patterns" : "convolutions"), ": ", problems.size(), " problems, ",
            listed, " settings, ", timed, " timed, with 4 of each engine ", before, "; ", seconds,
            " s");
  }
}

// The table of docs/results/search-plans.json.
TEST_CASE("cudnn search plans: settings and seconds of each problem" * doctest::skip()) {
  const GpuDescription described = gpu_description("h100");
  const cudnn::Descriptor gpu = cudnn::device_properties(described);
  for (const bool fused : {false, true}) {
    for (const auto& [name, key, sizes] : problems_of_resnet18(fused)) {
      const ModelMs ms = model_ms(key, sizes, described);
      std::string text;
      for (const ConvLimits& limits : {ConvLimits{.per_engine = 4, .of_first = 4}, ConvLimits{},
                                       ConvLimits{.per_engine = 0, .of_first = 0}}) {
        const Search s = search(key, gpu, ms, limits);
        const bool first = text.empty();
        if (first)
          text =
              concat(" us ", 1e3 * ms.convolution, " ", s.sum(s.listed), " listed, engine ",
                     s.leading, " has ", s.listed.at(s.leading), "; of each 4 ", timed_before(s));
        text +=
            concat("; ", s.timed.at(s.leading), " ", s.sum(s.timed), " ", s.host_ms, " ", s.gpu_ms);
      }
      MESSAGE(name, " | ", concat(key.pass), " ", concat(key.fusion), text);
    }
  }
}

TEST_SUITE_END();
