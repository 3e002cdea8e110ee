// Learning-rate schedules; see scheduler.h.
#include "lathe/optim/scheduler.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>

namespace lathe::optim {

namespace {

void check_count(const char* schedule, const char* name, int64_t value) {
  LATHE_CHECK(ValueError, value >= 1, schedule, ": ", name, " must be at least 1, got ", value);
}

void check_factor(const char* schedule, const char* name, double value) {
  LATHE_CHECK(ValueError, value >= 0 && std::isfinite(value), schedule, ": ", name,
              " must be finite and not negative, got ", value);
}

}  // namespace

void LRScheduler::start() {
  std::vector<double> rates;
  for (size_t g = 0; g < optimizer_.num_groups(); ++g) {
    const double initial = optimizer_.initial_lr(g);
    rates.push_back(lr_at(0, initial, initial));
  }
  optimizer_.set_lrs(rates);
  last_epoch_ = 0;
}

void LRScheduler::step() {
  const int64_t next = last_epoch_ + 1;
  std::vector<double> rates;
  for (size_t g = 0; g < optimizer_.num_groups(); ++g) {
    rates.push_back(lr_at(next, optimizer_.lr(g), optimizer_.initial_lr(g)));
  }
  optimizer_.set_lrs(rates);
  last_epoch_ = next;
}

StateDict LRScheduler::state_dict() const {
  StateDict out;
  out.add_number("last_epoch", last_epoch_);
  for (size_t g = 0; g < optimizer_.num_groups(); ++g) {
    out.add_number(concat("group.", g, ".lr"), optimizer_.lr(g));
  }
  return out;
}

void LRScheduler::load_state_dict(const StateDict& state) {
  const size_t groups = optimizer_.num_groups();
  LATHE_CHECK(ValueError, state.size() == groups + 1, "scheduler: a state of ", state.size(),
              " entries does not fit an optimizer with ", groups, " groups, which needs ",
              groups + 1);
  const auto epoch = state.number<int64_t>("last_epoch");
  LATHE_CHECK(ValueError, epoch >= 0, "scheduler: last_epoch must not be negative, got ", epoch);
  std::vector<double> rates;
  for (size_t g = 0; g < groups; ++g) {
    rates.push_back(state.number<double>(concat("group.", g, ".lr")));
    check_factor("scheduler", "lr", rates.back());
  }
  optimizer_.set_lrs(rates);
  last_epoch_ = epoch;
}

StepLR::StepLR(Optimizer& optimizer, const StepLROptions& options)
    : LRScheduler(optimizer), options_(options) {
  check_count("StepLR", "step_size", options.step_size);
  check_factor("StepLR", "gamma", options.gamma);
  start();
}

double StepLR::lr_at(int64_t epoch, double before, double initial) const {
  if (epoch == 0) return initial;
  return epoch % options_.step_size == 0 ? before * options_.gamma : before;
}

MultiStepLR::MultiStepLR(Optimizer& optimizer, MultiStepLROptions options)
    : LRScheduler(optimizer), options_(std::move(options)) {
  for (const int64_t m : options_.milestones) check_count("MultiStepLR", "a milestone", m);
  const auto descent = std::ranges::adjacent_find(options_.milestones, std::greater<>());
  LATHE_CHECK(ValueError, descent == options_.milestones.end(),
              "MultiStepLR: the milestones must ascend, got ", *(descent + 1), " after ", *descent);
  check_factor("MultiStepLR", "gamma", options_.gamma);
  start();
}

double MultiStepLR::lr_at(int64_t epoch, double before, double initial) const {
  if (epoch == 0) return initial;
  double lr = before;
  for (const int64_t m : options_.milestones) lr = m == epoch ? lr * options_.gamma : lr;
  return lr;
}

CosineAnnealingLR::CosineAnnealingLR(Optimizer& optimizer, const CosineAnnealingLROptions& options)
    : LRScheduler(optimizer), options_(options) {
  check_count("CosineAnnealingLR", "t_max", options.t_max);
  check_factor("CosineAnnealingLR", "eta_min", options.eta_min);
  start();
}

double CosineAnnealingLR::lr_at(int64_t epoch, double, double initial) const {
  const double angle =
      std::numbers::pi * static_cast<double>(epoch) / static_cast<double>(options_.t_max);
  return options_.eta_min + (initial - options_.eta_min) * (1 + std::cos(angle)) / 2;
}

LinearLR::LinearLR(Optimizer& optimizer, const LinearLROptions& options)
    : LRScheduler(optimizer), options_(options) {
  check_count("LinearLR", "total_iters", options.total_iters);
  check_factor("LinearLR", "start_factor", options.start_factor);
  check_factor("LinearLR", "end_factor", options.end_factor);
  start();
}

double LinearLR::lr_at(int64_t epoch, double, double initial) const {
  const double done = static_cast<double>(std::min(epoch, options_.total_iters)) /
                      static_cast<double>(options_.total_iters);
  return initial * ((1 - done) * options_.start_factor + done * options_.end_factor);
}

LambdaLR::LambdaLR(Optimizer& optimizer, std::function<double(int64_t)> factor)
    : LRScheduler(optimizer), factor_(std::move(factor)) {
  LATHE_CHECK(ValueError, factor_ != nullptr, "LambdaLR: the function is empty");
  start();
}

double LambdaLR::lr_at(int64_t epoch, double, double initial) const {
  return initial * factor_(epoch);
}

SequentialLR::SequentialLR(Optimizer& optimizer, std::vector<const LRScheduler*> schedules,
                           std::vector<int64_t> milestones)
    : LRScheduler(optimizer), schedules_(std::move(schedules)), milestones_(std::move(milestones)) {
  LATHE_CHECK(ValueError, schedules_.size() == milestones_.size() + 1,
              "SequentialLR: ", schedules_.size(), " schedules need one milestone fewer, got ",
              milestones_.size());
  for (const LRScheduler* part : schedules_) {
    LATHE_CHECK(ValueError, part != nullptr && &part->optimizer() == &optimizer,
                "SequentialLR: all schedules must be of this optimizer");
  }
  for (size_t i = 0; i < milestones_.size(); ++i) {
    const int64_t above = i == 0 ? 0 : milestones_[i - 1];
    LATHE_CHECK(ValueError, milestones_[i] > above, "SequentialLR: milestone ", milestones_[i],
                " must be above ", above);
  }
  start();
}

double SequentialLR::lr_at(int64_t epoch, double before, double initial) const {
  const auto next = std::ranges::upper_bound(milestones_, epoch);
  const auto part = static_cast<size_t>(next - milestones_.begin());
  const int64_t begin = part == 0 ? 0 : milestones_[part - 1];
  return schedules_[part]->lr_at(epoch - begin, before, initial);
}

}  // namespace lathe::optim
