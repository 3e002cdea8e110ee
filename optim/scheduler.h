// Learning-rate schedules. One step() per epoch, after the optimiser's last step of that epoch;
// "epoch" may as well be any other unit in which the caller counts.
//   optim::StepLR schedule(opt, {.step_size = 30});
//   for (int epoch = 0; epoch < 90; ++epoch) { …; schedule.step(); }
#pragma once

#include <functional>
#include <vector>

#include "lathe/optim/optimizer.h"

namespace lathe::optim {

/// Base of all schedules. Constructing one sets the learning rates of epoch 0. The optimiser must
/// outlive it.
class LATHE_API LRScheduler {
 public:
  virtual ~LRScheduler() = default;
  LRScheduler(const LRScheduler&) = delete;
  LRScheduler& operator=(const LRScheduler&) = delete;

  /// Begins the next epoch: sets each group's learning rate.   throws: ValueError for a rate that
  /// is negative or not finite (of LambdaLR's function, say); the epoch and all rates are then as
  /// before.
  void step();

  /// The epoch whose learning rates are set; 0 at first.
  int64_t last_epoch() const { return last_epoch_; }
  Optimizer& optimizer() const { return optimizer_; }

  /// The learning rate of `epoch`, given that of the epoch before (not used for epoch 0) and the
  /// initial one.
  virtual double lr_at(int64_t epoch, double before, double initial) const = 0;

  /// last_epoch and the learning rates in use; the options are the constructor's.
  StateDict state_dict() const;
  /// Continues there: the next epoch uses the learning rate that it would have used without the
  /// interruption. throws: ValueError if the state is not one of a schedule over as many groups;
  /// nothing has changed then.
  void load_state_dict(const StateDict& state);

 protected:
  explicit LRScheduler(Optimizer& optimizer) : optimizer_(optimizer) {}
  /// Sets the learning rates of epoch 0; the last thing that a constructor does.
  void start();

 private:
  Optimizer& optimizer_;
  int64_t last_epoch_ = 0;
};

struct StepLROptions {
  int64_t step_size = 30;
  double gamma = 0.1;
};
/// lr is multiplied by gamma every step_size epochs.   throws: ValueError for step_size < 1 or a
/// negative gamma.
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
/// lr = eta_min + (initial - eta_min) · (1 + cos(pi · epoch / t_max)) / 2.   throws: ValueError for
/// t_max < 1 or a negative eta_min. ref: Loshchilov and Hutter 2017 (arXiv:1608.03983), without
/// restarts.
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
/// {.start_factor = 1, .end_factor = 0} anneals to 0.   throws: ValueError for total_iters < 1 or a
/// negative factor. ref: warm-up: Goyal et al. 2017 (arXiv:1706.02677).
class LATHE_API LinearLR final : public LRScheduler {
 public:
  LinearLR(Optimizer& optimizer, const LinearLROptions& options);
  double lr_at(int64_t epoch, double before, double initial) const override;

 private:
  LinearLROptions options_;
};

/// lr = initial · factor(epoch).
class LATHE_API LambdaLR final : public LRScheduler {
 public:
  LambdaLR(Optimizer& optimizer, std::function<double(int64_t)> factor);
  double lr_at(int64_t epoch, double before, double initial) const override;

 private:
  std::function<double(int64_t)> factor_;
};

/// One schedule after another: schedule i rules from milestones[i-1] on and counts its epochs from
/// there.
///   optim::LinearLR warmup(opt, {.start_factor = 0.01, .total_iters = 5});
///   optim::CosineAnnealingLR cosine(opt, {.t_max = 85});
///   optim::SequentialLR schedule(opt, {&warmup, &cosine}, {5});     // step() only this one
/// The parts must outlive it; only their formulas are used.
/// throws: ValueError unless there is one milestone fewer than schedules, they ascend from 1 and
/// all rule this optimiser.
class LATHE_API SequentialLR final : public LRScheduler {
 public:
  SequentialLR(Optimizer& optimizer, std::vector<const LRScheduler*> schedules,
               std::vector<int64_t> milestones);
  double lr_at(int64_t epoch, double before, double initial) const override;

 private:
  std::vector<const LRScheduler*> schedules_;
  std::vector<int64_t> milestones_;
};

}  // namespace lathe::optim
