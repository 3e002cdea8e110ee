// What the real cuDNN plans for the convolutions of ResNet-18 and ResNet-34, which have the same
// ones, on GPUs that are described and not there: three passes, four precisions, NHWC as in
// training. It runs on a machine without GPU and driver, and is skipped where there is no cuDNN.
#include <doctest/doctest.h>

#include <array>
#include <string>
#include <vector>

#include "../cudnn/conv_keys.h"
#include "can_plan.h"
#include "lathe/core/error.h"
#include "lathe/core/gpu/cudnn_described.h"
#include "lathe/core/math_mode.h"
#include "lathe/ops/conv/cudnn/conv2d_graph_cudnn.h"
#include "lathe/ops/conv/cudnn/conv2d_planner.h"
#include "lathe/ops/conv/search/conv2d_key.h"

using namespace lathe;
using namespace lathe::test;

namespace {

struct Precision {
  const char* name;
  DType dtype;
  bool tf32 = false;
};
constexpr Precision kPrecisions[] = {
    {"fp16", kF16}, {"bf16", kBF16}, {"tf32", kF32, true}, {"f32", kF32}};

/// f(key) for every convolution of the networks in a pass and precision.
template <class F>
void for_each_key(ConvPass pass, const Precision& precision, std::initializer_list<int64_t> batches,
                  F&& f) {
  set_tf32(precision.tf32);
  for (const int64_t batch : batches) {
    for (const Conv2dCase& c : resnet18_convolutions(batch)) {
      const Conv2dGeometry sizes = conv2d_padded(geometry_of(c), kChannelsLast, precision.dtype);
      f(conv2d_key(pass, sizes, kChannelsLast, precision.dtype));
    }
  }
  set_tf32(false);
}

bool multiplies_on_tensor_cores(const ConvKey& key) { return is_half(key.x.dtype) || key.tf32; }

/// ImageNet's stem in TF32 at batch 512: its gradients' engines with tensor cores take more
/// workspace than a convolution may have.
bool is_largest_stem(const ConvKey& key) {
  return key.tf32 && key.w.dims[2] == 7 && key.x.dims[0] == 512 && key.pass != ConvPass::kForward;
}

std::string text_of(const cudnn::Descriptor& plan) {
  const std::vector<char> text =
      plan.get_array<char>(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, 1 << 16);
  return {text.begin(), text.end()};
}

int64_t workspace_of(const cudnn::Descriptor& plan) {
  return plan.get<int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
}

cudnn::Descriptor read_plan(const std::string& text, const cudnn::Descriptor& gpu) {
  cudnn::Descriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, gpu);  // without it cuDNN 9.19 crashes
  plan.set_array(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, std::span<const char>(text));
  plan.finalize();
  return plan;
}

/// How many of a heuristic's configurations have plans, and are the same plans when they are made
/// again from engine and knobs, or read back from their text.
struct Counts {
  int configs = 0, plans = 0, same = 0, read_back = 0, compiled = 0;
};

void count_plans(const ConvKey& key, cudnnBackendHeurMode_t mode, const cudnn::Descriptor& gpu,
                 Counts& counts) {
  const cudnn::OperationGraph graph = cuda::conv2d_graph(key);
  for (const cudnn::EngineConfig& config : cudnn::heuristic_configs(graph, mode, &gpu)) {
    ++counts.configs;
    if (config.has(CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION)) {  // takes the driver's library
      ++counts.compiled;
      continue;
    }
    const cudnn::Descriptor plan = cudnn::plan_for(config, gpu);
    ++counts.plans;
    const cudnn::EngineConfig made = engine_config(graph, config.engine, config.knobs, &gpu);
    const cudnn::Descriptor again = cudnn::plan_for(made, gpu);
    const auto notes = made.parts.back().get_array<cudnnBackendNumericalNote_t>(
        CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
    counts.same += workspace_of(again) == workspace_of(plan) && notes == config.numerical_notes;
    const std::string text = text_of(plan);
    const cudnn::Descriptor back = read_plan(text, gpu);
    counts.read_back += workspace_of(back) == workspace_of(plan) && text_of(back) == text;
  }
}

}  // namespace

TEST_SUITE_BEGIN("cudnn plans" * doctest::skip(!can_plan()) *
                 doctest::description("no cuDNN 9.8 or later"));

TEST_CASE("cudnn plans: every convolution has an engine that passes our filters, on every GPU") {
  for (const std::string_view name : known_gpus()) {
    const Conv2dPlanner planner(gpu_description(std::string(name)));
    for (const ConvPass pass : kPasses) {
      int keys = 0, chosen = 0, usable = 0;
      for (const Precision& precision : kPrecisions) {
        for_each_key(pass, precision, {1, 128, 512}, [&](const ConvKey& key) {
          ++keys;
          INFO(name, " ", concat(key));
          const ConvChoice choice = planner.plan(key);
          const ConvEngineInfo& engine = choice.info();
          for (const ConvEngineResult& result : choice.engines) usable += result.usable();
          const bool right =
              refusal(key, engine).empty() && !engine.compiles &&
              engine.workspace_bytes <= key.workspace_limit_bytes &&
              (engine.tensor_cores == multiplies_on_tensor_cores(key) || is_largest_stem(key));
          CHECK_MESSAGE(right, concat(engine.engine), ", workspace ", engine.workspace_bytes,
                        std::string(engine.tensor_cores ? ", tensor cores" : ""));
          chosen += right;
        });
      }
      CHECK(keys == 22 * 3 * 4);
      MESSAGE(name, " ", concat(pass), ": engines for ", chosen, " of ", keys, " convolutions, ",
              usable, " usable configurations");
    }
  }
}

TEST_CASE("cudnn plans: engines that give the same bits in every run, for every convolution") {
  const Conv2dPlanner planner(gpu_description("h200"));
  for (const ConvPass pass : kPasses) {
    for (const Precision& precision : kPrecisions) {
      for_each_key(pass, precision, {128}, [&](ConvKey key) {
        key.mode = ConvMode::kDeterministic;
        INFO(concat(key));
        CHECK(planner.plan(key).info().deterministic);
      });
    }
  }
}

TEST_CASE("cudnn plans: made again from engine and knobs, or read back, it is the same plan") {
  for (const std::string_view name : known_gpus()) {
    const cudnn::Descriptor gpu = cudnn::device_properties(gpu_description(std::string(name)));
    for (const ConvPass pass : kPasses) {
      Counts counts;
      const auto count = [&](const ConvKey& key) {
        count_plans(key, CUDNN_HEUR_MODE_A, gpu, counts);
      };
      if (name == "h200") {
        for (const Precision& precision : kPrecisions) {
          for_each_key(pass, precision, {1, 128, 512}, count);
        }
      } else {
        for_each_key(pass, kPrecisions[0], {128}, count);
      }
      CHECK(counts.plans > 22);
      CHECK(counts.plans + counts.compiled == counts.configs);
      CHECK(counts.same == counts.plans);
      CHECK(counts.read_back == counts.plans);
      MESSAGE(name, " ", concat(pass), ", heuristic A: ", counts.plans, " plans of ",
              counts.configs, " configurations");
    }
  }
}

TEST_CASE("cudnn plans: the same for heuristic B, on one GPU and in fp16") {
  const cudnn::Descriptor gpu = cudnn::device_properties(gpu_description("h200"));
  for (const ConvPass pass : kPasses) {
    Counts counts;
    for_each_key(pass, kPrecisions[0], {128},
                 [&](const ConvKey& key) { count_plans(key, CUDNN_HEUR_MODE_B, gpu, counts); });
    CHECK(counts.plans > 22);
    CHECK(counts.same == counts.plans);
    CHECK(counts.read_back == counts.plans);
    MESSAGE("h200 ", concat(pass), ", heuristic B, fp16: ", counts.plans, " plans of ",
            counts.configs, " configurations");
  }
}

TEST_CASE("cudnn plans: a description that is none of a GPU is refused with cuDNN's reason") {
  GpuDescription gpu = gpu_description("h200");
  gpu.json = "{}";
  CHECK_THROWS_WITH_AS(cudnn::device_properties(gpu), doctest::Contains("the description of a GPU"),
                       CudaError);
}

TEST_SUITE_END();
