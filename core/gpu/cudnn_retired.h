// Plans of cuDNN that will not be executed again, but whose kernels may still run: see Note [Plans
// that are still needed] in cudnn_plan.h. Thread-safe.
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
  std::unique_ptr<PlanParts> next;  // in a list of PlanParts
};

/// At most this many plans are kept per device before a wait.
inline constexpr size_t kMostRetiredPlans = 64;

/// Keeps a plan that was executed: for good, or until destroy_retired_plans().
void retire_plan(std::unique_ptr<PlanParts> plan, bool for_good) noexcept;

/// If more than kMostRetiredPlans are kept for `device`: waits for it and destroys them. Does
/// nothing while a capture is underway, because a wait would end that.
void destroy_retired_plans(Device device) noexcept;

}  // namespace lathe::cudnn
