// Engine configurations and execution plans of cuDNN; see cudnn_plan.h.
#include "lathe/core/cudnn_plan.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <tuple>

#include "lathe/core/error.h"

namespace lathe::cudnn {

bool EngineConfig::has(cudnnBackendNumericalNote_t note) const {
  return std::ranges::find(numerical_notes, note) != numerical_notes.end();
}
bool EngineConfig::has(cudnnBackendBehaviorNote_t note) const {
  return std::ranges::find(behavior_notes, note) != behavior_notes.end();
}

namespace {

EngineConfig describe(Descriptor descriptor) {
  EngineConfig config{.descriptor = std::move(descriptor)};
  const std::vector<Descriptor> engines = config.descriptor.get_descriptors(
      CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR, 1);
  LATHE_CHECK(CudaError, !engines.empty(), "cudnn: a configuration names no engine");
  const Descriptor& engine = engines.front();
  config.engine = engine.get<int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
  config.numerical_notes = engine.get_array<cudnnBackendNumericalNote_t>(
      CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
  config.behavior_notes = engine.get_array<cudnnBackendBehaviorNote_t>(
      CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_BEHAVIOR_NOTE_TYPE_COUNT);
  for (const Descriptor& knob : config.descriptor.get_descriptors(
           CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR,
           CUDNN_KNOB_TYPE_COUNTS)) {
    const auto type = knob.get<cudnnBackendKnobType_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE);
    config.knobs.emplace_back(static_cast<int64_t>(type),
                              knob.get<int64_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE));
  }
  try {
    config.workspace_bytes = config.descriptor.get<int64_t>(CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE);
  } catch (const CudaError&) {  // a cuDNN before 9.2: the plan will know
  }
  return config;
}

std::vector<EngineConfig> configs_of(const OperationGraph& graph, cudnnBackendHeurMode_t mode) {
  Descriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph.get());
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_MODE, mode);
  heuristic.finalize();
  std::vector<EngineConfig> configs;
  for (Descriptor& found :
       heuristic.get_descriptors(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR,
                                 heuristic.count_descriptors(CUDNN_ATTR_ENGINEHEUR_RESULTS))) {
    configs.push_back(describe(std::move(found)));
  }
  return configs;
}

}  // namespace

std::vector<EngineConfig> heuristic_configs(const OperationGraph& graph) {
  std::vector<EngineConfig> all;
  for (const auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    try {
      std::ranges::move(configs_of(graph, mode), std::back_inserter(all));
    } catch (const CudaError&) {  // this heuristic knows nothing of such graphs; the other may
    }
  }
  return all;
}

EngineConfig engine_config(const OperationGraph& graph, int64_t engine, EngineConfig::Knobs knobs) {
  EngineConfig config{.descriptor = Descriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR),
                      .engine = engine,
                      .knobs = std::move(knobs)};
  config.parts.reserve(config.knobs.size() + 1);
  std::vector<cudnnBackendDescriptor_t> choices;
  for (const auto& [type, value] : config.knobs) {
    Descriptor& choice = config.parts.emplace_back(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    choice.set(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, static_cast<cudnnBackendKnobType_t>(type));
    choice.set(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, value);
    choice.finalize();
    choices.push_back(choice.object());
  }
  Descriptor& chosen = config.parts.emplace_back(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  chosen.set(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph.get());
  chosen.set(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, engine);
  chosen.finalize();
  config.descriptor.set(CUDNN_ATTR_ENGINECFG_ENGINE, chosen);
  if (!choices.empty()) {
    config.descriptor.set_objects(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, choices);
  }
  config.descriptor.finalize();
  return config;
}

ExecutionPlan::ExecutionPlan(cudnnHandle_t handle, EngineConfig config)
    : config_(std::move(config)), plan_(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) {
  plan_.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, handle);
  plan_.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config_.descriptor);
  plan_.finalize();
  workspace_bytes_ = plan_.get<int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
}

void ExecutionPlan::execute(cudnnHandle_t handle, std::span<const Binding> tensors,
                            void* workspace) const {
  constexpr size_t kMost = 16;  // every call comes here: no allocation
  std::array<int64_t, kMost> uids;
  std::array<void*, kMost> addresses;
  const size_t count = tensors.size();
  LATHE_CHECK(ValueError, count <= kMost, "cudnn: a plan binds at most ", kMost, " tensors, got ",
              count);
  for (size_t i = 0; i < count; ++i) std::tie(uids[i], addresses[i]) = tensors[i];
  Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set_array(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, std::span<const int64_t>(uids.data(), count));
  pack.set_array(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
                 std::span<void* const>(addresses.data(), count));
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, workspace);
  pack.finalize();
  check(cudnnBackendExecute(handle, plan_.object(), pack.object()), "execute a plan");
}

}  // namespace lathe::cudnn
