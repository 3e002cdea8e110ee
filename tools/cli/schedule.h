// The learning rate as a function of the step: what --scheduler and --warmup-epochs mean.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lathe/tools/cli/settings.h"

namespace lathe::cli {

struct Schedule {
  enum class Kind { kNone, kStep, kMultiStep, kCosine, kLinear };

  Kind kind = Kind::kNone;
  int64_t steps_per_epoch = 1;
  int64_t total_steps = 1;   // cosine and linear end there
  int64_t warmup_steps = 0;  // rises linearly; the first step has 1 / (warmup_steps + 1)
  int64_t step_size = 30;    // epochs
  std::vector<int64_t> milestones = {};  // epochs, ascending
  double gamma = 0.1;

  /// The factor of the learning rate in step 0, 1, …; after warm-up:
  ///   none 1;  step gamma^floor(epoch / step_size);  multistep gamma^(milestones reached);
  ///   linear 1 - t, cosine (1 + cos(pi t)) / 2, with t from 0 after the warm-up to 1 at
  ///   total_steps.
  double factor(int64_t step) const;
};

/// throws: UsageError for milestones that are no ascending list of epochs, or missing.
Schedule make_schedule(const Settings& settings, int64_t steps_per_epoch, int64_t total_steps);

}  // namespace lathe::cli
