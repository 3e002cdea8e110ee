// From an operation graph to its execution on a GPU: configurations of engines, plans, runs.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "lathe/core/gpu/cudnn_graph.h"

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

struct PlanParts;  // cudnn_retired.h

/// A tensor's memory: its uid and its address.
using Binding = std::pair<int64_t, void*>;

/// A configuration made ready for one device. For one thread at a time.
///
/// Note [Plans that are still needed]: a plan may own code, of an engine that is compiled when it
/// is made, and cuDNN promises nothing of kernels whose plan is gone. They may still be queued, or
/// be part of a captured graph, which runs them whenever it is launched. So of a plan that was
/// executed only the shell goes with this object (cudnn_retired.h):
/// - what was executed within a capture stays for good: nobody says when its last graph goes;
/// - the rest stays until the device is known to have passed it. No event is recorded for that: it
///   would cost every execution, and the plan's streams may be gone by then. Instead, when many
///   such plans have come together and another is about to be made, which takes longer anyway, the
///   host waits for the device once and destroys them all. A thread that ends waits for nothing.
class ExecutionPlan {
 public:
  /// throws: what check() throws.
  ExecutionPlan(Device device, std::shared_ptr<const OperationGraph> graph, EngineConfig config);
  ~ExecutionPlan();
  ExecutionPlan(ExecutionPlan&&) noexcept;
  ExecutionPlan& operator=(ExecutionPlan&&) noexcept;

  int64_t workspace_bytes() const { return workspace_bytes_; }

  /// Queues it on the current stream. The workspace, of that many bytes, and the tensors' memory
  /// must stay theirs until it has run.   throws: what check() throws.
  void execute(std::span<const Binding> tensors, void* workspace);

  /// Whether it was executed since it was made or settle() was called.
  bool in_use() const { return in_use_; }
  /// The host has waited for all that was executed.
  void settle() { in_use_ = was_captured_; }

 private:
  /// What an execution is told. cuDNN reads it within the call, and it cannot be changed. Making
  /// one takes 2.4 us (cuDNN 9.19), so the latest are kept: the allocator gives a training step the
  /// memory that the step before had.
  struct Pack {
    std::vector<Binding> tensors;
    void* workspace;
    Descriptor descriptor;
  };
  static constexpr size_t kPacks = 8;  // layers of a network that are alike

  const Descriptor& pack_for(std::span<const Binding> tensors, void* workspace);
  void retire() noexcept;

  std::unique_ptr<PlanParts> parts_;
  int64_t workspace_bytes_ = 0;
  std::vector<Pack> packs_;
  size_t oldest_pack_ = 0;
  bool in_use_ = false, was_captured_ = false;
};

}  // namespace lathe::cudnn
