// The scopes around the steps of a training that find faults: --detect-anomaly and --sync.
#pragma once

#include <optional>

#include "lathe/core/debug/detect_anomaly.h"
#include "lathe/core/debug/sync_check.h"
#include "lathe/core/device.h"
#include "lathe/tools/cli/output.h"
#include "lathe/tools/cli/settings/settings.h"

namespace lathe::cli {

/// Logs what --sync and --detect-anomaly do not check in this training: --sync has no effect on a
/// CPU; with a loss scale, --detect-anomaly does not check gradients.
void announce_debug_scopes(const FaultSettings& settings, Device device, bool scales_loss,
                           Log& log);

/// True if the steps must be queued op by op, so that a scope can look at each op.
bool wants_single_ops(const FaultSettings& settings);

/// The debug scopes around the steps of an epoch: DetectAnomaly with --detect-anomaly, SyncCheck
/// with --sync on a GPU. With a loss scale (`scales_loss`) there is no DetectAnomaly here: make a
/// ForwardScope in each step instead.
class DebugScopes {
 public:
  [[nodiscard]] DebugScopes(const FaultSettings& settings, Device device, bool scales_loss);

  /// Throws an anomaly that was found but not thrown yet. Call it at the end of an epoch's last
  /// step. Does nothing without a DetectAnomaly.
  /// throws: AnomalyError if the last op made a NaN or infinity.
  void check();

 private:
  std::optional<debug::DetectAnomaly> anomaly_;
  std::optional<debug::SyncCheck> sync_;
};

/// Looks for NaN and infinities in the forward pass of one step, if --detect-anomaly is set and the
/// loss is scaled (`scales_loss`); otherwise it does nothing. Gradients of a scaled loss are not
/// checked: the scale rises until they overflow, so an overflow is no fault.
class ForwardScope {
 public:
  [[nodiscard]] ForwardScope(const FaultSettings& settings, bool scales_loss);

  /// Like DebugScopes::check(). Call it at the end of the forward pass.
  void check();

 private:
  std::optional<debug::DetectAnomaly> anomaly_;
};

}  // namespace lathe::cli
