// The learning rate of each step: what --scheduler and --warmup-epochs mean.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lathe/optim/reduce_on_plateau.h"
#include "lathe/optim/scheduler_chain.h"
#include "lathe/tools/cli/settings/settings.h"

namespace lathe::cli {

struct Schedule {
  enum class Kind {
    kNone,
    kStep,
    kMultiStep,
    kExponential,
    kCosine,
    kRestarts,
    kLinear,
    kPoly,
    kOneCycle,
    kPlateau
  };

  Kind kind = Kind::kNone;
  int64_t steps_per_epoch = 1;
  int64_t total_steps = 1;   // where cosine, linear, poly and onecycle end
  int64_t warmup_steps = 0;  // linear rise; the factor of the first step is 1 / (warmup_steps + 1)
  int64_t step_size = 30;    // epochs
  std::vector<int64_t> milestones = {};  // epochs, ascending
  double gamma = 0.1;
  int64_t restart_epochs = 10, restart_factor = 1;
  double power = 2;
  int64_t patience = 5;  // evaluations

  /// The factor of the learning rate in `step` (0, 1, …). After the warm-up it is, by the kind of
  /// schedule:
  ///   none, plateau  1
  ///   step           gamma^floor(epoch / step_size)
  ///   multistep      gamma^(milestones reached)
  ///   exponential    gamma^epoch
  ///   linear         1 - t, with t from 0 after the warm-up to 1 at total_steps
  ///   cosine         (1 + cos(pi t)) / 2
  ///   restarts       optim::warm_restarts_factor, whose first cycle has restart_epochs
  ///   poly           (1 - t)^power
  ///   onecycle       optim::one_cycle_factor, whose rise replaces the warm-up
  double factor(int64_t step) const;
};

/// Makes the schedule of the settings.
/// throws: UsageError
///   - if the warm-up is not shorter than the run's epochs (--max-steps may end inside it);
///   - if the milestones are missing, or are not an ascending list of epochs;
///   - for plateau without evaluations, or with a --gamma of 1 or more.
Schedule make_schedule(const Settings& settings, int64_t steps_per_epoch, int64_t total_steps);

/// Sets the learning rate of an optimiser by a Schedule. Call step() once per training step, and
/// observe() with the test loss once per evaluation.
class RunSchedule {
 public:
  RunSchedule(optim::Optimizer& optimizer, const Schedule& schedule);
  optim::LRScheduler& operator*();

 private:
  std::optional<optim::LambdaLR> formula_;
  std::optional<optim::ReduceLROnPlateau> plateau_;
  std::optional<optim::SequentialLR> both_;
};

}  // namespace lathe::cli
