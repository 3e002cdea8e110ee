// Schedules made of schedules: one after another (SequentialLR), or all at once (ChainedLR).
#pragma once

#include <vector>

#include "lathe/optim/scheduler.h"

namespace lathe::optim {

/// One schedule after another: schedule i sets the rates from milestones[i-1] on and counts its
/// epochs from there.
///   optim::LinearLR warmup(opt, {.start_factor = 0.01, .total_iters = 5});
///   optim::CosineAnnealingLR cosine(opt, {.t_max = 85});
///   optim::SequentialLR schedule(opt, {&warmup, &cosine}, {5});     // step() only this one
/// The parts must outlive it. It uses their formulas and, while a part is the active one, that
/// part's reaction to a metric.
/// throws: ValueError unless there is one milestone fewer than schedules, the milestones ascend
/// from 1 or more, and all schedules are of this optimiser and none is a ChainedLR.
class LATHE_API SequentialLR final : public LRScheduler {
 public:
  SequentialLR(Optimizer& optimizer, std::vector<LRScheduler*> schedules,
               std::vector<int64_t> milestones);
  double lr_at(int64_t epoch, double before, double initial) const override;
  void adapt(double metric, int64_t epoch, std::vector<double>& rates) override;
  StateDict memory() const override;
  void recall(const StateDict& memory) override;

 private:
  size_t part_at(int64_t epoch) const;
  int64_t begin_of(size_t part) const;

  std::vector<LRScheduler*> schedules_;
  std::vector<int64_t> milestones_;
};

/// Several schedules at once: lr = initial · the product of all lr_i / initial, where lr_i is what
/// schedule i alone would set.
///   optim::LinearLR warmup(opt, {.start_factor = 0.01, .total_iters = 5});
///   optim::ReduceLROnPlateau plateau(opt);
///   optim::ChainedLR schedule(opt, {&warmup, &plateau});     // observe() and step() only this one
/// The parts must outlive it.
/// throws: ValueError for no schedules, one of another optimiser, or one that is a ChainedLR.
class LATHE_API ChainedLR final : public LRScheduler {
 public:
  ChainedLR(Optimizer& optimizer, std::vector<LRScheduler*> schedules);
  /// Not available: a part's next rate depends on that part's last rate, not on the chain's.
  /// throws: StateError.
  double lr_at(int64_t epoch, double before, double initial) const override;
  void adapt(double metric, int64_t epoch, std::vector<double>& rates) override;
  StateDict memory() const override;
  void recall(const StateDict& memory) override;

 private:
  using Rates = std::vector<double>;  // one per group

  void set_rates(int64_t epoch) override;
  Rates product(const std::vector<Rates>& parts) const;

  std::vector<LRScheduler*> schedules_;
  std::vector<Rates> part_rates_;
};

}  // namespace lathe::optim
