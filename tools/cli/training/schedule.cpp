// Schedule's formulas, its checks, and RunSchedule over the schedules of optim/.
#include "lathe/tools/cli/training/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "lathe/core/text/formatted.h"
#include "lathe/tools/cli/exit_codes.h"
#include "lathe/tools/cli/parse_value.h"
#include "lathe/tools/cli/settings/defaults.h"

namespace lathe::cli {
namespace {

Schedule::Kind kind_of(const std::string& name) {
  return name == "step"          ? Schedule::Kind::kStep
         : name == "multistep"   ? Schedule::Kind::kMultiStep
         : name == "exponential" ? Schedule::Kind::kExponential
         : name == "restarts"    ? Schedule::Kind::kRestarts
         : name == "cosine"      ? Schedule::Kind::kCosine
         : name == "linear"      ? Schedule::Kind::kLinear
         : name == "poly"        ? Schedule::Kind::kPoly
         : name == "onecycle"    ? Schedule::Kind::kOneCycle
         : name == "plateau"     ? Schedule::Kind::kPlateau
                                 : Schedule::Kind::kNone;
}

std::vector<int64_t> parse_milestones(const std::string& text) {
  std::vector<int64_t> milestones;
  for (const std::string& part : split_list(text)) {
    const int64_t least = milestones.empty() ? 1 : milestones.back() + 1;
    milestones.push_back(parse_integer("--milestones", part, least, INT64_MAX));
  }
  if (milestones.empty())
    throw UsageError("--scheduler multistep needs --milestones, such as 80,120");
  return milestones;
}

}  // namespace

double Schedule::factor(int64_t step) const {
  if (kind == Kind::kOneCycle) {
    optim::OneCycleLROptions cycle{.total_steps = total_steps};
    // The step after the rise, number warmup_steps, has the peak.
    if (warmup_steps > 0) {
      const double rise = static_cast<double>(warmup_steps + 1);
      cycle.pct_start = std::min(rise / static_cast<double>(total_steps), 1.0);
    }
    return optim::one_cycle_factor(step, cycle);
  }
  if (step < warmup_steps)
    return static_cast<double>(step + 1) / static_cast<double>(warmup_steps + 1);
  const int64_t epoch = step / steps_per_epoch;
  const double length = static_cast<double>(std::max<int64_t>(total_steps - warmup_steps, 1));
  const double t = std::min(static_cast<double>(step - warmup_steps) / length, 1.0);
  switch (kind) {
    case Kind::kNone:
    case Kind::kOneCycle:
    case Kind::kPlateau: return 1;
    case Kind::kStep: return std::pow(gamma, static_cast<double>(epoch / step_size));
    case Kind::kMultiStep: {
      const auto reached =
          std::upper_bound(milestones.begin(), milestones.end(), epoch) - milestones.begin();
      return std::pow(gamma, static_cast<double>(reached));
    }
    case Kind::kExponential: return std::pow(gamma, static_cast<double>(epoch));
    case Kind::kRestarts:
      return optim::warm_restarts_factor(step - warmup_steps, restart_epochs * steps_per_epoch,
                                         restart_factor);
    case Kind::kCosine: return (1 + std::cos(std::numbers::pi * t)) / 2;
    case Kind::kLinear: return 1 - t;
    case Kind::kPoly: return std::pow(1 - t, power);
  }
  return 1;
}

Schedule make_schedule(const Settings& settings, int64_t steps_per_epoch, int64_t total_steps) {
  if (settings.early_stopping > 0 && settings.eval_every == 0)
    throw UsageError("--early-stopping needs evaluations: --eval-every 0 makes none");
  const auto epochs = static_cast<double>(*settings.epochs);
  if (settings.warmup_epochs > 0 && settings.warmup_epochs >= epochs) {
    throw UsageError(formatted("--warmup-epochs {} leaves nothing of a run of --epochs {}",
                               number_text(settings.warmup_epochs), *settings.epochs));
  }
  Schedule schedule{
      .kind = kind_of(settings.scheduler),
      .steps_per_epoch = steps_per_epoch,
      .total_steps = total_steps,
      .warmup_steps = std::llround(settings.warmup_epochs * static_cast<double>(steps_per_epoch)),
      .step_size = settings.step_size,
      .gamma = settings.gamma.value_or(usual_gamma(settings.scheduler)),
      .restart_epochs = settings.restart_epochs,
      .restart_factor = settings.restart_factor,
      .power = settings.power,
      .patience = settings.patience};
  if (schedule.kind == Schedule::Kind::kMultiStep)
    schedule.milestones = parse_milestones(settings.milestones);
  if (schedule.kind == Schedule::Kind::kPlateau) {
    if (settings.eval_every == 0)
      throw UsageError("--scheduler plateau needs evaluations: --eval-every 0 makes none");
    if (schedule.gamma >= 1)
      throw UsageError(formatted("--scheduler plateau needs a --gamma below 1, got {}",
                                 number_text(schedule.gamma)));
  }
  return schedule;
}

RunSchedule::RunSchedule(optim::Optimizer& optimizer, const Schedule& schedule) {
  const bool plateau = schedule.kind == Schedule::Kind::kPlateau;
  if (plateau)
    plateau_.emplace(optimizer, optim::ReduceLROnPlateauOptions{.factor = schedule.gamma,
                                                                .patience = schedule.patience});
  if (!plateau || schedule.warmup_steps > 0)
    formula_.emplace(optimizer, [schedule](int64_t step) { return schedule.factor(step); });
  if (plateau_ && formula_)
    both_.emplace(optimizer, std::vector<optim::LRScheduler*>{&*formula_, &*plateau_},
                  std::vector<int64_t>{schedule.warmup_steps});
}

optim::LRScheduler& RunSchedule::operator*() {
  if (both_) return *both_;
  if (plateau_) return *plateau_;
  return *formula_;
}

}  // namespace lathe::cli
