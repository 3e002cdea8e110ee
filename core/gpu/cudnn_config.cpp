// Asking cuDNN's heuristics for configurations, and making one again. Contracts: cudnn_config.h.
#include "lathe/core/gpu/cudnn_config.h"

#include <algorithm>

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
  } catch (const CudaError&) {  // cuDNN before 9.2: only the plan will tell
  }
  return config;
}

std::vector<Descriptor> suggestions(const OperationGraph& graph, cudnnBackendHeurMode_t mode,
                                    const Descriptor* gpu) try {
  Descriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph.get());
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_MODE, mode);
  if (gpu != nullptr) heuristic.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *gpu);
  heuristic.finalize();
  return heuristic.get_descriptors(CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                   CUDNN_BACKEND_ENGINECFG_DESCRIPTOR,
                                   heuristic.count_descriptors(CUDNN_ATTR_ENGINEHEUR_RESULTS));
} catch (const CudaError&) {  // this heuristic does not know such graphs; another may
  return {};
}

}  // namespace

std::vector<EngineConfig> heuristic_configs(const OperationGraph& graph,
                                            cudnnBackendHeurMode_t mode, const Descriptor* gpu) {
  std::vector<EngineConfig> configs;
  for (Descriptor& suggestion : suggestions(graph, mode, gpu)) {
    try {
      configs.push_back(describe(std::move(suggestion)));
    } catch (const CudaError&) {  // the others may still be of use
    }
  }
  return configs;
}

EngineConfig engine_config(const OperationGraph& graph, int64_t engine, EngineConfig::Knobs knobs,
                           const Descriptor* gpu) {
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
  if (gpu != nullptr) chosen.set(CUDNN_ATTR_ENGINE_DEVICEPROP, *gpu);
  chosen.finalize();
  config.descriptor.set(CUDNN_ATTR_ENGINECFG_ENGINE, chosen);
  if (!choices.empty()) {
    config.descriptor.set_objects(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, choices);
  }
  config.descriptor.finalize();
  return config;
}

}  // namespace lathe::cudnn
