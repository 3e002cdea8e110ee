// Plans of cuDNN that nobody will execute again, but whose kernels may still run: Note [Plans that
// are still needed] in cudnn_plan.h. Thread-safe.
#pragma once

#include <memory>
#include <utility>

#include "lathe/core/gpu/cudnn_plan.h"

namespace lathe::cudnn {

/// What a plan's kernels may need.
struct PlanParts {
  PlanParts(Device d, std::shared_ptr<const OperationGraph> g, EngineConfig c)
      : device(d),
        graph(std::move(g)),
        config(std::move(c)),
        plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) {}

  const Device device;
  std::shared_ptr<const OperationGraph> graph;
  EngineConfig config;
  Descriptor plan;
  std::unique_ptr<PlanParts> next;  // in a list of them
};

/// As many are kept without a wait.
inline constexpr size_t kMostRetiredPlans = 64;

/// Keeps a plan that was executed: for good, or until destroy_retired_plans().
void retire_plan(std::unique_ptr<PlanParts> plan, bool for_good) noexcept;

/// Where more than that many are kept for `device`: waits for it and destroys them. Not while a
/// capture is underway, which a wait would end.
void destroy_retired_plans(Device device) noexcept;

}  // namespace lathe::cudnn
