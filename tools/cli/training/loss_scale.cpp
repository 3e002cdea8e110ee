// The options of the loss scaler from --amp and --loss-scale.
#include "lathe/tools/cli/training/loss_scale.h"

#include <cmath>

#include "lathe/core/error.h"
#include "lathe/core/text/formatted.h"
#include "lathe/tools/cli/exit_codes.h"
#include "lathe/tools/cli/parse_value.h"

namespace lathe::cli {

optim::GradScalerOptions scaler_options(const PrecisionSettings& settings) {
  const bool dynamic = settings.loss_scale == "dynamic";
  if (settings.amp != "fp16" && !dynamic)
    throw UsageError(formatted("--loss-scale {} needs --amp fp16", settings.loss_scale));
  optim::GradScalerOptions options{.init_scale = settings.init_scale,
                                   .growth_interval = settings.growth_interval,
                                   .dynamic = dynamic,
                                   .enabled = settings.amp == "fp16"};
  if (!dynamic) options.init_scale = parse_number("--loss-scale", settings.loss_scale, 0, HUGE_VAL);
  try {
    return optim::GradScaler(options).options();
  } catch (const ValueError& e) {
    throw UsageError(formatted("{}: {}", dynamic ? "--init-scale" : "--loss-scale", e.message()));
  }
}

void fail_if_all_skipped(const PrecisionSettings& settings, int64_t skipped, int64_t steps) {
  if (steps == 0 || skipped < steps) return;
  const bool dynamic = settings.loss_scale == "dynamic";
  throw CommandError(ExitCode::kDiverged,
                     formatted("nothing was learned: with {1} the gradients of all {0} steps were "
                               "inf or nan, so every step was skipped",
                               steps,
                               dynamic ? "--init-scale " + number_text(settings.init_scale)
                                       : "--loss-scale " + settings.loss_scale));
}

}  // namespace lathe::cli
