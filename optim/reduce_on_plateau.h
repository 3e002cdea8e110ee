// ReduceLROnPlateau: lowers the learning rate when a metric no longer improves.
#pragma once

#include "lathe/optim/scheduler.h"

namespace lathe::optim {

struct ReduceLROnPlateauOptions {
  bool maximize = false;    // true: a higher metric is better, as for an accuracy
  double factor = 0.1;      // a reduction multiplies lr by this
  int64_t patience = 10;    // metrics without improvement before the one that causes a reduction
  double threshold = 1e-4;  // an improvement must be larger than this …
  bool relative = true;     // … times the best metric so far; false: larger than this itself
  int64_t cooldown = 0;     // metrics after a reduction that do not count as bad
  double min_lr = 0;
  double eps = 1e-8;  // a reduction by this or less is not made
};

/// After `patience` + 1 metrics in a row that do not improve on the best metric, lr becomes max(lr
/// · factor, min_lr) in every group. A metric m improves if
///   m < best · (1 - threshold)   (relative),   m < best - threshold   (absolute);
///   with maximize: m > best · (1 + threshold),   m > best + threshold.
/// NaN does not improve.
///   optim::ReduceLROnPlateau schedule(opt, {.patience = 3});
///   for (int epoch = 0; epoch < 90; ++epoch) { …; schedule.observe(validation_loss); }
/// step() only counts epochs. scheduler_chain.h combines it with other schedules. State: best,
/// bad_metrics, cooldown_left, and the entries that every schedule has (LRScheduler::state_dict()).
/// throws: ValueError if factor is outside [0, 1), patience or cooldown is negative, or threshold,
/// min_lr or eps is negative or not finite.
/// ref: the rule is PyTorch's.
class LATHE_API ReduceLROnPlateau final : public LRScheduler {
 public:
  explicit ReduceLROnPlateau(Optimizer& optimizer, const ReduceLROnPlateauOptions& options = {});
  double lr_at(int64_t epoch, double before, double initial) const override;
  void adapt(double metric, int64_t epoch, std::vector<double>& rates) override;
  StateDict memory() const override;
  void recall(const StateDict& memory) override;

 private:
  bool improves(double metric) const;

  ReduceLROnPlateauOptions options_;
  double best_;
  int64_t bad_metrics_ = 0, cooldown_left_ = 0;
};

}  // namespace lathe::optim
