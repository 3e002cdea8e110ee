// Making plans and executing them.
#include "lathe/core/gpu/cudnn_plan.h"

#include <algorithm>

#include "lathe/core/cuda_backend.h"
#include "lathe/core/gpu/cudnn_handle.h"
#include "lathe/core/gpu/cudnn_retired.h"

namespace lathe::cudnn {

ExecutionPlan::ExecutionPlan(Device device, std::shared_ptr<const OperationGraph> graph,
                             EngineConfig config) {
  destroy_retired_plans(device);
  parts_ = std::make_unique<PlanParts>(device, std::move(graph), std::move(config));
  Descriptor& plan = parts_->plan;
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, handle(device));
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, parts_->config.descriptor);
  plan.finalize();
  workspace_bytes_ = plan.get<int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
}

ExecutionPlan::~ExecutionPlan() { retire(); }
ExecutionPlan::ExecutionPlan(ExecutionPlan&&) noexcept = default;

ExecutionPlan& ExecutionPlan::operator=(ExecutionPlan&& other) noexcept {
  if (this == &other) return *this;
  retire();
  parts_ = std::move(other.parts_);
  workspace_bytes_ = other.workspace_bytes_;
  packs_ = std::move(other.packs_);
  oldest_pack_ = other.oldest_pack_;
  uses_ = other.uses_;
  return *this;
}

void ExecutionPlan::retire() noexcept {
  if (parts_ != nullptr && uses_.queued) retire_plan(std::move(parts_), uses_.captured);
}

const Descriptor& ExecutionPlan::pack_for(std::span<const Binding> tensors, void* workspace) {
  for (const Pack& pack : packs_) {
    if (pack.workspace == workspace && std::ranges::equal(pack.tensors, tensors)) {
      return pack.descriptor;
    }
  }
  std::vector<int64_t> uids;
  std::vector<void*> addresses;
  for (const auto& [uid, address] : tensors) {
    uids.push_back(uid);
    addresses.push_back(address);
  }
  Pack pack{{tensors.begin(), tensors.end()},
            workspace,
            Descriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)};
  pack.descriptor.set_array(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, std::span<const int64_t>(uids));
  pack.descriptor.set_array(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
                            std::span<void* const>(addresses));
  pack.descriptor.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, workspace);
  pack.descriptor.finalize();
  if (packs_.size() < kPacks) return packs_.emplace_back(std::move(pack)).descriptor;
  Pack& replaced = packs_[oldest_pack_];
  oldest_pack_ = (oldest_pack_ + 1) % kPacks;
  replaced = std::move(pack);
  return replaced.descriptor;
}

void ExecutionPlan::execute(std::span<const Binding> tensors, void* workspace) {
  const Descriptor& pack = pack_for(tensors, workspace);
  const cudnnHandle_t on = handle(parts_->device);
  if (!uses_.captured) uses_.captured = cuda::is_capturing(current_stream(parts_->device));
  uses_.queued = true;  // before the call: a failed one may have queued something
  const cudnnStatus_t status =
      functions().cudnnBackendExecute(on, parts_->plan.object(), pack.object());
  if (status != CUDNN_STATUS_SUCCESS) check(status, "execute a plan");
}

}  // namespace lathe::cudnn
