// Engine configurations: cuDNN's ways to compute an operation graph. cudnn_plan.h runs them.
#pragma once

#include <utility>
#include <vector>

#include "lathe/core/gpu/cudnn_graph.h"

namespace lathe::cudnn {

/// One of cuDNN's ways to compute a graph: an engine and the values of its knobs.
struct EngineConfig {
  using Knobs = std::vector<std::pair<int64_t, int64_t>>;  // {cudnnBackendKnobType_t, value}

  Descriptor descriptor;
  std::vector<Descriptor> parts;  // the descriptors it was made of
  int64_t engine = 0;             // cuDNN's number for it
  Knobs knobs;
  std::vector<cudnnBackendNumericalNote_t> numerical_notes;
  std::vector<cudnnBackendBehaviorNote_t> behavior_notes;
  int64_t workspace_bytes = 0;  // an estimate; the plan has the true number

  bool has(cudnnBackendNumericalNote_t note) const;
  bool has(cudnnBackendBehaviorNote_t note) const;
};

/// What one of cuDNN's heuristics suggests, the best first: for the current device, or for `gpu`
/// (device_properties() in cudnn_described.h). Without a configuration that cuDNN cannot describe;
/// empty if the heuristic does not know such graphs.
/// throws: OutOfMemoryError.
std::vector<EngineConfig> heuristic_configs(const OperationGraph& graph,
                                            cudnnBackendHeurMode_t mode,
                                            const Descriptor* gpu = nullptr);

/// The configuration with this engine and these knobs, without its notes.
/// throws: what check() throws, if this cuDNN or the device has no such engine.
EngineConfig engine_config(const OperationGraph& graph, int64_t engine, EngineConfig::Knobs knobs,
                           const Descriptor* gpu = nullptr);

}  // namespace lathe::cudnn
