// What the real cuDNN plans for the fused patterns (conv2d_patterns_cudnn.h), in every convolution
// of ResNet-18 and ResNet-34, on GPUs that are described and not there. Plain convolutions:
// plans_test.cpp.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <utility>

#include "../cudnn/conv_keys.h"
#include "can_plan.h"
#include "lathe/core/gpu/cudnn_described.h"
#include "lathe/ops/conv/cudnn/conv2d_graph_cudnn.h"
#include "lathe/ops/conv/cudnn/conv2d_planner.h"
#include "lathe/ops/conv/search/conv2d_key.h"

using namespace lathe;
using namespace lathe::test;

namespace {

struct Pattern {
  ConvPass pass;
  ConvFusion fusion;
  int64_t largest_filter;  // with engines
  bool strided;            // engines take strides above 1 too
  int64_t largest_on_ampere;
  bool training = true;  // else it has so many engines that a part of the cases is asked for
};
constexpr Pattern kPatterns[] = {
    {ConvPass::kForward, ConvFusion::kStatistics, 5, true, 5},
    {ConvPass::kForward, ConvFusion::kNormRelu, 5, true, 5},
    {ConvPass::kBackwardWeight, ConvFusion::kNormRelu, 5, true, 7},
    {ConvPass::kBackwardInput, ConvFusion::kReluNorm, 7, true, 7},
    {ConvPass::kBackwardInput, ConvFusion::kAddReluNorm, 5, false, 0},
    {ConvPass::kBackwardInput, ConvFusion::kAddReluTwoNorms, 5, false, 0},
    {ConvPass::kForward, ConvFusion::kBiasRelu, 7, true, 7, false},
    {ConvPass::kForward, ConvFusion::kAddBiasRelu, 7, true, 7, false},
};

ConvKey key_of(const Pattern& pattern, const Conv2dCase& c, DType dtype = kF16) {
  const Conv2dGeometry sizes = conv2d_padded(geometry_of(c), kChannelsLast, dtype);
  ConvKey key = conv2d_key(pattern.pass, sizes, kChannelsLast, dtype);
  key.fusion = pattern.fusion;
  return key;
}

bool has_engines(const Pattern& pattern, const Conv2dCase& c, bool ampere = false) {
  return c.w[2] <= (ampere ? pattern.largest_on_ampere : pattern.largest_filter) &&
         (pattern.strided || c.opt.stride.rows == 1);
}

/// How many configurations there are, and how many have plans without a compiler.
struct Counts {
  int configs = 0, plans = 0;
};

Counts count(const ConvKey& key, const cudnn::Descriptor& gpu) {
  Counts counts;
  const cudnn::OperationGraph graph = cuda::conv2d_graph(key);
  for (const cudnn::EngineConfig& config :
       cudnn::heuristic_configs(graph, CUDNN_HEUR_MODE_A, &gpu)) {
    ++counts.configs;
    if (config.has(CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION)) continue;
    const cudnn::EngineConfig again =
        cudnn::engine_config(graph, config.engine, config.knobs, &gpu);
    const auto workspace = [](const cudnn::Descriptor& plan) {
      return plan.get<int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
    };
    counts.plans +=
        workspace(cudnn::plan_for(config, gpu)) == workspace(cudnn::plan_for(again, gpu));
  }
  return counts;
}

}  // namespace

TEST_SUITE_BEGIN("cudnn fused plans" * doctest::skip(!can_plan()) *
                 doctest::description("no cuDNN 9.8 or later"));

TEST_CASE("cudnn fused plans: every layer has precompiled engines for each pattern") {
  for (const std::string name : {"h200", "h100", "a100"}) {
    const cudnn::Descriptor gpu = cudnn::device_properties(gpu_description(name));
    for (const Pattern& pattern : kPatterns) {
      if (!pattern.training && name != "h200") continue;
      int asked = 0, layers = 0, least = 0, most = 0, plans = 0;
      for (const int64_t batch : {128, 512}) {
        if (!pattern.training && batch == 128) continue;
        for (const Conv2dCase& c : resnet18_convolutions(batch)) {
          ++asked;
          const ConvKey key = key_of(pattern, c);
          const Counts counts = count(key, gpu);
          INFO(name, " ", c.name, " ", concat(key));
          CHECK(counts.plans == counts.configs);
          CHECK((counts.plans > 0) == has_engines(pattern, c, name == "a100"));
          if (counts.plans == 0) continue;
          ++layers;
          plans += counts.plans;
          least = layers == 1 ? counts.plans : std::min(least, counts.plans);
          most = std::max(most, counts.plans);
        }
      }
      MESSAGE(name, " ", concat(pattern.pass, " ", pattern.fusion), ": engines in ", layers, " of ",
              asked, " convolutions, ", least, " to ", most, " configurations each, ", plans,
              " plans");
    }
  }
}

TEST_CASE("cudnn fused plans: small layers, as tests/cudnn has them, have engines on a GPU, too") {
  const cudnn::Descriptor gpu = cudnn::device_properties(gpu_description("h200"));
  for (const Pattern& pattern : kPatterns) {
    if (!pattern.strided) continue;  // patterns that no op uses
    for (const int64_t batch : {1, 4}) {
      for (const int64_t size : {2, 5, 9}) {
        for (const auto& [in, out] :
             {std::pair<int64_t, int64_t>{8, 8}, {8, 16}, {16, 24}, {64, 64}}) {
          for (const auto& [filter, stride] : {std::pair<int64_t, int64_t>{3, 1}, {3, 2}, {1, 2}}) {
            const Conv2dCase c{"small",
                               {batch, in, size, size},
                               {out, in, filter, filter},
                               {.stride = stride, .pad = filter / 2}};
            INFO(concat(key_of(pattern, c)));
            const Counts counts = count(key_of(pattern, c), gpu);
            CHECK(counts.plans > 0);
            CHECK(counts.plans == counts.configs);
          }
        }
      }
    }
  }
}

TEST_CASE("cudnn fused plans: the search's filters pass one of them") {
  const Conv2dPlanner planner(gpu_description("h200"));
  for (const Pattern& pattern : kPatterns) {
    for (const Conv2dCase& c : resnet18_convolutions(512)) {
      if (!has_engines(pattern, c)) continue;
      const ConvKey key = key_of(pattern, c);
      INFO(c.name, " ", concat(key));
      const ConvChoice choice = planner.plan(key);
      CHECK(refusal(key, choice.info()).empty());
      CHECK(choice.info().workspace_bytes <= key.workspace_limit_bytes);
    }
  }
}

TEST_CASE(
    "cudnn fused plans: of training none for bf16 and f32, nor for channels that fill no 16 "
    "bytes") {
  const cudnn::Descriptor gpu = cudnn::device_properties(gpu_description("h200"));
  const Conv2dCase block{"block", {128, 64, 32, 32}, {64, 64, 3, 3}, {.pad = 1}};
  const Conv2dCase odd{"odd", {128, 60, 32, 32}, {60, 60, 3, 3}, {.pad = 1}};
  for (const Pattern& pattern : kPatterns) {
    if (!pattern.training) continue;
    INFO(concat(pattern.pass, " ", pattern.fusion));
    CHECK(count(key_of(pattern, block, kBF16), gpu).plans == 0);
    CHECK(count(key_of(pattern, block, kF32), gpu).plans == 0);
    ConvKey key = conv2d_key(pattern.pass, geometry_of(odd), kChannelsLast, kF16);
    key.fusion = pattern.fusion;
    CHECK(count(key, gpu).plans == 0);
  }
}

TEST_SUITE_END();
