// Learning-rate schedules that are formulas of the epoch. reduce_on_plateau.h has the one that
// looks at a metric, scheduler_chain.h those that combine others. Call step() once per epoch, after
// the optimiser's last step of that epoch. An "epoch" may be any unit that the caller counts in.
//   optim::StepLR schedule(opt, {.step_size = 30});
//   for (int epoch = 0; epoch < 90; ++epoch) { …; schedule.step(); }
#pragma once

#include <functional>
#include <vector>

#include "lathe/optim/optimizer.h"

namespace lathe::optim {

/// Base of all schedules. The constructor sets the learning rates of epoch 0. The optimiser must
/// outlive it.
class LATHE_API LRScheduler {
 public:
  virtual ~LRScheduler() = default;
  LRScheduler(const LRScheduler&) = delete;
  LRScheduler& operator=(const LRScheduler&) = delete;

  /// Begins the next epoch: sets each group's learning rate.
  /// throws: ValueError for a rate that is negative or not finite (from LambdaLR's function, say).
  /// The epoch and all rates are then as before.
  void step();

  /// Passes on how training goes (a validation loss, an accuracy), usually once per epoch, before
  /// step(). ReduceLROnPlateau lowers the learning rates at once, alone or inside another schedule;
  /// the other schedules ignore it.
  void observe(double metric);

  /// The epoch whose learning rates are set; 0 at first.
  int64_t last_epoch() const { return last_epoch_; }
  Optimizer& optimizer() const { return optimizer_; }

  /// The learning rate of `epoch`, given that of the epoch before (not used for epoch 0) and the
  /// initial one.
  virtual double lr_at(int64_t epoch, double before, double initial) const = 0;
  /// Changes `rates` (one per group, set by this schedule for `epoch`) in answer to a metric.
  virtual void adapt(double metric, int64_t epoch, std::vector<double>& rates);

  /// What decides the next learning rates besides the epoch and the present rates; usually nothing.
  virtual StateDict memory() const { return {}; }
  /// Takes over what memory() gave.
  /// throws: ValueError; nothing has changed then.
  virtual void recall(const StateDict& memory);

  /// last_epoch, the learning rates in use (group.0.lr, …) and memory(). The options are not part
  /// of it: they come from the constructor.
  StateDict state_dict() const;
  /// Continues from such a state: the next epoch gets the learning rate that it would have had
  /// without the interruption.
  /// throws: ValueError if the state is not one of such a schedule over as many groups; nothing has
  /// changed then.
  void load_state_dict(const StateDict& state);

 protected:
  explicit LRScheduler(Optimizer& optimizer) : optimizer_(optimizer) {}
  /// Sets the learning rates of epoch 0. A constructor calls it last.
  void start();
  /// Sets the learning rates of `epoch`, which is 0 or follows last_epoch(). All or none.
  virtual void set_rates(int64_t epoch);

 private:
  Optimizer& optimizer_;
  int64_t last_epoch_ = 0;
};

struct StepLROptions {
  int64_t step_size = 30;
  double gamma = 0.1;
};
/// lr is multiplied by gamma every step_size epochs.
/// throws: ValueError for step_size < 1 or a negative gamma.
class LATHE_API StepLR final : public LRScheduler {
 public:
  StepLR(Optimizer& optimizer, const StepLROptions& options);
  double lr_at(int64_t epoch, double before, double initial) const override;

 private:
  StepLROptions options_;
};

struct MultiStepLROptions {
  std::vector<int64_t> milestones = {};  // epochs, ascending; the same twice counts twice
  double gamma = 0.1;
};
/// lr is multiplied by gamma at every milestone.
/// throws: ValueError for a milestone < 1, milestones that descend, or a negative gamma.
class LATHE_API MultiStepLR final : public LRScheduler {
 public:
  MultiStepLR(Optimizer& optimizer, MultiStepLROptions options);
  double lr_at(int64_t epoch, double before, double initial) const override;

 private:
  MultiStepLROptions options_;
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

struct LinearLROptions {
  double start_factor = 1.0 / 3;  // of the initial learning rate, in epoch 0
  double end_factor = 1;          // from epoch total_iters on
  int64_t total_iters = 5;
};
/// lr = initial · a factor that changes linearly: {.start_factor = 0.01} is a warm-up,
/// {.start_factor = 1, .end_factor = 0} anneals to 0.
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
  int64_t total_steps = 0;  // of the whole cycle; the last one is number total_steps - 1
  double pct_start = 0.3;   // part of the steps in which the learning rate rises
  Anneal anneal = Anneal::kCosine;
  double div_factor = 25;         // the first step has peak / div_factor
  double final_div_factor = 1e4;  // the last step has the first step's rate divided by this
  bool three_phase = false;       // down again in as many steps as up, then on to the end
};
/// The factor of the initial learning rate in `step`. It goes through these values:
///   1 / div_factor                     in step 0
///   1                                  in step u = pct_start · total_steps - 1
///   1 / div_factor                     in step 2·u, with three_phase only
///   1 / div_factor / final_div_factor  in the last step and after it
/// Between two of them, at t from 0 to 1: end + (begin - end) · (1 + cos(pi·t)) / 2, or a straight
/// line.
LATHE_API double one_cycle_factor(int64_t step, const OneCycleLROptions& options);

/// Rises to the peak, which is the initial learning rate, and falls to nearly nothing, once: lr =
/// initial · one_cycle_factor(epoch). Call step() after every optimiser step, not once per epoch.
/// The momentum does not change.
/// throws: ValueError for total_steps < 1, pct_start outside of [0, 1] ([0, 0.5] with three_phase),
/// or a factor that is not positive and finite.
/// ref: Smith and Topin 2017 (arXiv:1708.07120); the phases are PyTorch's and fastai's.
class LATHE_API OneCycleLR final : public LRScheduler {
 public:
  OneCycleLR(Optimizer& optimizer, const OneCycleLROptions& options);
  double lr_at(int64_t epoch, double before, double initial) const override;

 private:
  OneCycleLROptions options_;
};

/// lr = initial · factor(epoch).
class LATHE_API LambdaLR final : public LRScheduler {
 public:
  LambdaLR(Optimizer& optimizer, std::function<double(int64_t)> factor);
  double lr_at(int64_t epoch, double before, double initial) const override;

 private:
  std::function<double(int64_t)> factor_;
};

}  // namespace lathe::optim
