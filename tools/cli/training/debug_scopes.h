// The scopes around the steps of a training that find faults: --detect-anomaly and --sync.
#pragma once

#include <optional>

#include "lathe/core/debug/detect_anomaly.h"
#include "lathe/core/debug/sync_check.h"
#include "lathe/core/device.h"
#include "lathe/tools/cli/output.h"
#include "lathe/tools/cli/settings/settings.h"

namespace lathe::cli {

/// Says what the settings ask for and cannot be had: --sync on a CPU, gradients under a loss scale.
void announce_debug_scopes(const Settings& settings, Device device, bool scales_loss, Log& log);

/// True if the steps must be queued op by op, so that each can be looked at.
bool wants_single_ops(const Settings& settings);

class DebugScopes {
 public:
  /// With `scales_loss` gradients are not looked at: it is raised until they overflow.
  DebugScopes(const Settings& settings, Device device, bool scales_loss);

 private:
  std::optional<debug::DetectAnomaly> anomaly_;
  std::optional<debug::SyncCheck> sync_;
};

}  // namespace lathe::cli
