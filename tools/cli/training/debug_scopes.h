// The scopes around the steps of a training that find faults: --detect-anomaly and --sync.
#pragma once

#include <optional>

#include "lathe/core/debug/detect_anomaly.h"
#include "lathe/core/debug/sync_check.h"
#include "lathe/core/device.h"
#include "lathe/tools/cli/output.h"
#include "lathe/tools/cli/settings/settings.h"

namespace lathe::cli {

/// Says which requests of the settings cannot be fulfilled: --sync on a CPU, gradients under a loss
/// scale.
void announce_debug_scopes(const FaultSettings& settings, Device device, bool scales_loss,
                           Log& log);

/// True if the steps must be queued op by op, so that a scope can look at each op.
bool wants_single_ops(const FaultSettings& settings);

/// The debug scopes (such as DetectAnomaly) around all steps of a training. With a loss scale
/// (`scales_loss`), a ForwardScope in each step looks for bad values instead of a scope around all
/// steps.
class DebugScopes {
 public:
  [[nodiscard]] DebugScopes(const FaultSettings& settings, Device device, bool scales_loss);

  /// Call it at the end of a training's last step.
  /// throws: AnomalyError if the result of the last op has a NaN or infinity.
  void check();

 private:
  std::optional<debug::DetectAnomaly> anomaly_;
  std::optional<debug::SyncCheck> sync_;
};

/// The debug scope around the forward pass of one step. With loss scaling (`scales_loss`) only the
/// forward pass is checked for NaN and infinities: the scale rises until gradients overflow, so bad
/// gradients are no fault.
class ForwardScope {
 public:
  [[nodiscard]] ForwardScope(const FaultSettings& settings, bool scales_loss);

  /// Like DebugScopes::check(), at the end of the forward pass.
  void check();

 private:
  std::optional<debug::DetectAnomaly> anomaly_;
};

}  // namespace lathe::cli
