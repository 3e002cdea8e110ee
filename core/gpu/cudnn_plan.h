// From an engine configuration (cudnn_config.h) to its execution on a GPU: plans, executions.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "lathe/core/device.h"
#include "lathe/core/gpu/cudnn_config.h"

namespace lathe::cudnn {

struct PlanParts;  // cudnn_retired.h

/// A tensor's memory: its uid and its address.
using Binding = std::pair<int64_t, void*>;

/// A configuration made ready for one device. Use it from one thread at a time.
///
/// Note [Plans that are still needed]: a plan may own code, if its engine is compiled when the plan
/// is made, and cuDNN promises nothing about kernels whose plan is destroyed. These may still be
/// queued, or be part of a captured graph, which runs them at each launch. So if a plan was
/// executed, its parts outlive this object (cudnn_retired.h):
/// - If it was executed within a capture, they stay for good: nothing tells when the last graph
///   with it is destroyed.
/// - Otherwise they stay until the device has certainly run past them. An event could tell, but it
///   would cost every execution, and the plan's streams may be gone by then. Instead, when many
///   such plans are kept and another is about to be made, which takes longer anyway, the host waits
///   for the device once and destroys them all. A thread that ends waits for nothing.
class ExecutionPlan {
 public:
  /// throws: what check() throws.
  ExecutionPlan(Device device, std::shared_ptr<const OperationGraph> graph, EngineConfig config);
  ~ExecutionPlan();
  ExecutionPlan(ExecutionPlan&&) noexcept;
  ExecutionPlan& operator=(ExecutionPlan&&) noexcept;

  int64_t workspace_bytes() const { return workspace_bytes_; }

  /// Queues it on the current stream. The workspace, of workspace_bytes(), and the tensors' memory
  /// must not be reused before it has run.
  /// throws: what check() throws.
  void execute(std::span<const Binding> tensors, void* workspace);

  /// What may still run this plan.
  struct Uses {
    bool queued = false, captured = false;
  };
  Uses uses() const { return uses_; }
  /// Says that of the executions since uses() was `before` none can run any more: the host has
  /// waited for them, and the graphs that they were captured into are destroyed.
  void settle(Uses before) { uses_ = before; }

 private:
  /// The arguments of an execution. cuDNN reads them within the call, and they cannot be changed.
  /// Making them takes 2.4 us (cuDNN 9.19), so the latest are kept: the allocator gives each
  /// training step the same memory as the step before.
  struct Pack {
    std::vector<Binding> tensors;
    void* workspace;
    Descriptor descriptor;
  };
  static constexpr size_t kPacks = 8;  // one for each of several equal layers of a network

  const Descriptor& pack_for(std::span<const Binding> tensors, void* workspace);
  void retire() noexcept;

  std::unique_ptr<PlanParts> parts_;
  int64_t workspace_bytes_ = 0;
  std::vector<Pack> packs_;
  size_t oldest_pack_ = 0;
  Uses uses_;
};

}  // namespace lathe::cudnn
