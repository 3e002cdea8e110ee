// Schedules made of schedules: one after another (SequentialLR), or all together (ChainedLR).
#pragma once

#include <vector>

#include "lathe/optim/scheduler.h"

namespace lathe::optim {

/// Runs one schedule after another. Schedule i sets the rates from epoch milestones[i-1] on and
/// counts its own epochs from there.
///   optim::LinearLR warmup(opt, {.start_factor = 0.01, .total_iters = 5});
///   optim::CosineAnnealingLR cosine(opt, {.t_max = 85});
///   optim::SequentialLR schedule(opt, {&warmup, &cosine}, {5});     // step() only this one
/// The schedules must outlive the SequentialLR. Only the active schedule receives observe()'s
/// metric.
/// throws: ValueError unless all of these hold:
///   - There is one milestone fewer than schedules.
///   - The milestones ascend, and the first is at least 1.
///   - All schedules belong to this optimiser, and no schedule is a ChainedLR.
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

/// Runs several schedules together: lr = initial · the product of all lr_i / initial, where lr_i is
/// the rate that schedule i alone would set.
///   optim::LinearLR warmup(opt, {.start_factor = 0.01, .total_iters = 5});
///   optim::ReduceLROnPlateau plateau(opt);
///   optim::ChainedLR schedule(opt, {&warmup, &plateau});     // observe() and step() only this one
/// The schedules must outlive the ChainedLR.
/// throws: ValueError for an empty list, a schedule of another optimiser, or a schedule that is a
/// ChainedLR.
class LATHE_API ChainedLR final : public LRScheduler {
 public:
  ChainedLR(Optimizer& optimizer, std::vector<LRScheduler*> schedules);
  /// Not available, because a schedule's next rate depends on its own last rate and not on that of
  /// the ChainedLR.
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
