// Which debug scopes a training has.
#include "lathe/tools/cli/training/debug_scopes.h"

namespace lathe::cli {

void announce_debug_scopes(const FaultSettings& settings, Device device, bool scales_loss,
                           Log& log) {
  if (settings.sync != "off" && device.is_cpu())
    log.line("--sync: on a CPU there is no device to wait for, so nothing is looked for");
  if (settings.detect_anomaly && scales_loss)
    log.line(
        "--detect-anomaly: the loss scale is raised until gradients overflow, so only the forward "
        "pass is looked at");
}

bool wants_single_ops(const FaultSettings& settings) {
  return settings.detect_anomaly || settings.sync != "off";
}

DebugScopes::DebugScopes(const FaultSettings& settings, Device device, bool scales_loss) {
  if (settings.detect_anomaly && !scales_loss) anomaly_.emplace();
  if (settings.sync == "off" || device.is_cpu()) return;
  sync_.emplace(settings.sync == "error" ? debug::SyncMode::kError : debug::SyncMode::kWarn);
}

void DebugScopes::check() {
  if (anomaly_) anomaly_->check();
}

ForwardScope::ForwardScope(const FaultSettings& settings, bool scales_loss) {
  if (settings.detect_anomaly && scales_loss) anomaly_.emplace();
}

void ForwardScope::check() {
  if (anomaly_) anomaly_->check();
}

}  // namespace lathe::cli
