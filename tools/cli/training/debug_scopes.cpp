// Which debug scopes a training has.
#include "lathe/tools/cli/training/debug_scopes.h"

namespace lathe::cli {

void announce_debug_scopes(const FaultSettings& settings, Device device, bool scales_loss,
                           Log& log) {
  if (settings.sync != "off" && device.is_cpu())
    log.line("--sync has no effect on a CPU: there is no device to wait for");
  if (settings.detect_anomaly && scales_loss)
    log.line(
        "--detect-anomaly checks only the forward pass: with loss scaling, gradients overflow now "
        "and then, which is no fault");
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
