// From an operation graph to its execution on a GPU: configurations of engines, plans, runs.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "lathe/core/cudnn_graph.h"

namespace lathe::cudnn {

/// One of cuDNN's ways to compute a graph: an engine and the values of its knobs.
struct EngineConfig {
  using Knobs = std::vector<std::pair<int64_t, int64_t>>;  // {cudnnBackendKnobType_t, value}

  Descriptor descriptor;
  std::vector<Descriptor> parts;  // what it was made of
  int64_t engine = 0;             // cuDNN's number for it
  Knobs knobs;
  std::vector<cudnnBackendNumericalNote_t> numerical_notes;
  std::vector<cudnnBackendBehaviorNote_t> behavior_notes;
  int64_t workspace_bytes = 0;  // a guess: the plan knows

  bool has(cudnnBackendNumericalNote_t note) const;
  bool has(cudnnBackendBehaviorNote_t note) const;
};

/// cuDNN's guesses for the device that is current, the best first: those of its heuristic A, then
/// those of its fall-back. Empty where it has none.   throws: OutOfMemoryError.
std::vector<EngineConfig> heuristic_configs(const OperationGraph& graph);

/// The configuration with this engine and these knobs; its notes are not asked for.
/// throws: what check() throws, if this cuDNN or the device has no such engine.
EngineConfig engine_config(const OperationGraph& graph, int64_t engine, EngineConfig::Knobs knobs);

/// A tensor's memory: its uid and its address.
using Binding = std::pair<int64_t, void*>;

/// A configuration made ready for one device. For one thread at a time; the graph must outlive it.
class ExecutionPlan {
 public:
  /// throws: what check() throws.
  ExecutionPlan(cudnnHandle_t handle, EngineConfig config);

  int64_t workspace_bytes() const { return workspace_bytes_; }

  /// Queues it on the handle's stream. The workspace, of that many bytes, and the tensors' memory
  /// must stay theirs until it has run.
  /// throws: ValueError for more than 16 tensors; what check() throws.
  void execute(cudnnHandle_t handle, std::span<const Binding> tensors, void* workspace) const;

 private:
  EngineConfig config_;
  Descriptor plan_;
  int64_t workspace_bytes_ = 0;
};

}  // namespace lathe::cudnn
