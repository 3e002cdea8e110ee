// Learning-rate schedules that are formulas of the epoch. reduce_on_plateau.h has a schedule that
// follows a metric; scheduler_chain.h combines schedules. Call step() once per epoch, after the
// optimiser's last step of that epoch. An "epoch" may be any unit that the caller counts in.
//   optim::StepLR schedule(opt, {.step_size = 30});
//   for (int epoch = 0; epoch < 90; ++epoch) { …; schedule.step(); }
#pragma once

#include <functional>
#include <vector>

#include "lathe/optim/optimizer.h"

namespace lathe::optim {

/// Base of all schedules. The constructor sets the learning rates of epoch 0. The optimiser must
/// outlive the schedule.
class LATHE_API LRScheduler {
 public:
  virtual ~LRScheduler() = default;
  LRScheduler(const LRScheduler&) = delete;
  LRScheduler& operator=(const LRScheduler&) = delete;

  /// Begins the next epoch: sets each group's learning rate.
  /// throws: ValueError for a rate that is negative or not finite (for instance from LambdaLR's
  /// function). Nothing has changed then.
  void step();

  /// Gives the schedule a metric (a validation loss, an accuracy), usually once per epoch, before
  /// step(). ReduceLROnPlateau lowers the learning rates within this call, also if it is part of
  /// another schedule. All other kinds of schedules ignore the metric.
  void observe(double metric);

  /// The epoch whose learning rates are in use; 0 at first.
  int64_t last_epoch() const { return last_epoch_; }
  Optimizer& optimizer() const { return optimizer_; }

  /// The learning rate of `epoch`. `before` is the rate of the previous epoch (unused for epoch 0),
  /// `initial` the initial rate.
  virtual double lr_at(int64_t epoch, double before, double initial) const = 0;
  /// Changes `rates` in response to a metric. `rates` has one rate per group, which this schedule
  /// set for `epoch`. The default changes nothing.
  virtual void adapt(double metric, int64_t epoch, std::vector<double>& rates);

  /// State that decides the next learning rates besides the epoch and the present rates. Most
  /// schedules have no such state.
  virtual StateDict memory() const { return {}; }
  /// Loads what memory() returned.
  /// throws: ValueError for another schedule's state. Nothing has changed then.
  virtual void recall(const StateDict& memory);

  /// Entries: last_epoch, the learning rates in use (group.0.lr, …), and the entries of memory().
  /// The options are not among them: they come from the constructor.
  StateDict state_dict() const;
  /// Continues from a state_dict(): the next epoch gets the learning rate that it would have had
  /// without the interruption.
  /// throws: ValueError if the state is from another kind of schedule or another number of groups.
  /// Nothing has changed then.
  void load_state_dict(const StateDict& state);

 protected:
  explicit LRScheduler(Optimizer& optimizer) : optimizer_(optimizer) {}
  /// Sets the learning rates of epoch 0. The constructor of a schedule must call it last.
  void start();
  /// Sets the learning rates of `epoch`, which is 0 or last_epoch() + 1. If it throws, nothing has
  /// changed.
  virtual void set_rates(int64_t epoch);

 private:
  Optimizer& optimizer_;
  int64_t last_epoch_ = 0;
};

struct StepLROptions {
  int64_t step_size = 30;
  double gamma = 0.1;
};
/// Multiplies lr by gamma every step_size epochs.
/// throws: ValueError for step_size < 1 or a negative gamma.
class LATHE_API StepLR final : public LRScheduler {
 public:
  StepLR(Optimizer& optimizer, const StepLROptions& options);
  double lr_at(int64_t epoch, double before, double initial) const override;

 private:
  StepLROptions options_;
};

struct MultiStepLROptions {
  std::vector<int64_t> milestones = {};  // ascending epochs; one that comes twice counts twice
  double gamma = 0.1;
};
/// Multiplies lr by gamma at every milestone.
/// throws: ValueError for a milestone < 1, milestones that descend, or a negative gamma.
class LATHE_API MultiStepLR final : public LRScheduler {
 public:
  MultiStepLR(Optimizer& optimizer, MultiStepLROptions options);
  double lr_at(int64_t epoch, double before, double initial) const override;

 private:
  MultiStepLROptions options_;
};

struct ExponentialLROptions {
  double gamma = 0;  // must be given
};
/// Multiplies lr by gamma every epoch.
/// throws: ValueError unless gamma is positive and finite.
class LATHE_API ExponentialLR final : public LRScheduler {
 public:
  ExponentialLR(Optimizer& optimizer, const ExponentialLROptions& options);
  double lr_at(int64_t epoch, double before, double initial) const override;

 private:
  ExponentialLROptions options_;
};

struct CosineAnnealingLROptions {
  int64_t t_max = 0;   // epochs from the initial learning rate to the smallest
  double eta_min = 0;  // the smallest learning rate
};
/// lr = eta_min + (initial - eta_min) · (1 + cos(pi · epoch / t_max)) / 2.
/// throws: ValueError for t_max < 1 or a negative eta_min.
/// ref: Loshchilov and Hutter 2017 (arXiv:1608.03983), without restarts.
class LATHE_API CosineAnnealingLR final : public LRScheduler {
 public:
  CosineAnnealingLR(Optimizer& optimizer, const CosineAnnealingLROptions& options);
  double lr_at(int64_t epoch, double before, double initial) const override;

 private:
  CosineAnnealingLROptions options_;
};

struct CosineAnnealingWarmRestartsOptions {
  int64_t t_0 = 0;     // epochs of the first cycle
  int64_t t_mult = 1;  // every later cycle has this many times the epochs of the one before
  double eta_min = 0;  // the learning rate to which a cycle falls
};
/// Returns (1 + cos(pi · e / T)) / 2, where T is the number of epochs in the present cycle, and e
/// of them are over. The first cycle has t_0 epochs. Each later cycle has t_mult times as many
/// epochs as the cycle before.
LATHE_API double warm_restarts_factor(int64_t epoch, int64_t t_0, int64_t t_mult);

/// Lowers the learning rate along half a cosine, again and again from the initial rate:
/// lr = eta_min + (initial - eta_min) · warm_restarts_factor(epoch).
/// throws: ValueError for t_0 < 1, t_mult < 1 or a negative eta_min.
/// ref: Loshchilov and Hutter 2017 (SGDR, arXiv:1608.03983).
class LATHE_API CosineAnnealingWarmRestarts final : public LRScheduler {
 public:
  CosineAnnealingWarmRestarts(Optimizer& optimizer,
                              const CosineAnnealingWarmRestartsOptions& options);
  double lr_at(int64_t epoch, double before, double initial) const override;

 private:
  CosineAnnealingWarmRestartsOptions options_;
};

struct LinearLROptions {
  double start_factor = 1.0 / 3;  // factor in epoch 0
  double end_factor = 1;          // factor from epoch total_iters on
  int64_t total_iters = 5;
};
/// lr = initial · f. The factor f changes linearly from start_factor to end_factor. For example
/// {.start_factor = 0.01} is a warm-up, and {.start_factor = 1, .end_factor = 0} anneals to 0.
/// throws: ValueError for total_iters < 1 or a negative factor.
/// ref: warm-up: Goyal et al. 2017 (arXiv:1706.02677).
class LATHE_API LinearLR final : public LRScheduler {
 public:
  LinearLR(Optimizer& optimizer, const LinearLROptions& options);
  double lr_at(int64_t epoch, double before, double initial) const override;

 private:
  LinearLROptions options_;
};

struct PolynomialLROptions {
  int64_t total_iters = 5;  // epochs until the learning rate is 0
  double power = 1;
};
/// lr = initial · (1 - min(epoch, total_iters) / total_iters)^power.
/// throws: ValueError for total_iters < 1 or a power that is negative or not finite.
/// ref: Liu et al. 2015 ("poly", arXiv:1506.04579); power 2 for large batches: You et al. 2017
/// (arXiv:1708.03888).
class LATHE_API PolynomialLR final : public LRScheduler {
 public:
  PolynomialLR(Optimizer& optimizer, const PolynomialLROptions& options);
  double lr_at(int64_t epoch, double before, double initial) const override;

 private:
  PolynomialLROptions options_;
};

enum class Anneal { kCosine, kLinear };

struct OneCycleLROptions {
  int64_t total_steps = 0;  // steps of the cycle: 0 … total_steps - 1
  double pct_start = 0.3;   // fraction of the steps in which the learning rate rises
  Anneal anneal = Anneal::kCosine;
  double div_factor = 25;         // the first step has peak / div_factor
  double final_div_factor = 1e4;  // the last step has the first step's rate divided by this
  bool three_phase = false;       // true: falls to the first rate as fast as it rose, then on
};
/// The factor of the initial learning rate in step `step`. It has these values:
///   1 / div_factor                     in step 0
///   1                                  in step u = pct_start · total_steps - 1
///   1 / div_factor                     in step 2·u, with three_phase only
///   1 / div_factor / final_div_factor  in the last step and after it
/// Between two of these values, at t from 0 to 1, the factor is
/// end + (begin - end) · (1 + cos(pi·t)) / 2, or with Anneal::kLinear a straight line.
LATHE_API double one_cycle_factor(int64_t step, const OneCycleLROptions& options);

/// Raises the learning rate once to its peak, then lowers it to nearly 0. The peak is the rate that
/// the optimiser was made with: lr = initial · one_cycle_factor(epoch). Call step() after every
/// optimiser step, not once per epoch. The momentum does not change.
/// throws: ValueError if total_steps < 1, pct_start is outside [0, 1] ([0, 0.5] with three_phase),
/// or a factor is not positive and finite.
/// ref: Smith and Topin 2017 (arXiv:1708.07120); the phases are PyTorch's and fastai's.
class LATHE_API OneCycleLR final : public LRScheduler {
 public:
  OneCycleLR(Optimizer& optimizer, const OneCycleLROptions& options);
  double lr_at(int64_t epoch, double before, double initial) const override;

 private:
  OneCycleLROptions options_;
};

/// lr = initial · factor(epoch).
/// throws: ValueError for an empty function.
class LATHE_API LambdaLR final : public LRScheduler {
 public:
  LambdaLR(Optimizer& optimizer, std::function<double(int64_t)> factor);
  double lr_at(int64_t epoch, double before, double initial) const override;

 private:
  std::function<double(int64_t)> factor_;
};

}  // namespace lathe::optim
