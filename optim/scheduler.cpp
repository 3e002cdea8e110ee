// Learning-rate schedules: the common part (step, observe, state), then one formula per class.
#include "lathe/optim/scheduler.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>

#include "lathe/core/state_entries.h"

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

void LRScheduler::set_rates(int64_t epoch) {
  std::vector<double> rates;
  for (size_t g = 0; g < optimizer_.num_groups(); ++g) {
    rates.push_back(lr_at(epoch, optimizer_.lr(g), optimizer_.initial_lr(g)));
  }
  optimizer_.set_lrs(rates);
}

void LRScheduler::start() { set_rates(0); }

void LRScheduler::step() {
  set_rates(last_epoch_ + 1);
  ++last_epoch_;
}

void LRScheduler::observe(double metric) {
  std::vector<double> rates;
  for (size_t g = 0; g < optimizer_.num_groups(); ++g) rates.push_back(optimizer_.lr(g));
  adapt(metric, last_epoch_, rates);
  optimizer_.set_lrs(rates);
}

void LRScheduler::adapt(double, int64_t, std::vector<double>&) {}

void LRScheduler::recall(const StateDict&) {}

StateDict LRScheduler::state_dict() const {
  StateDict out;
  out.add_number("last_epoch", last_epoch_);
  for (size_t g = 0; g < optimizer_.num_groups(); ++g) {
    out.add_number(concat("group.", g, ".lr"), optimizer_.lr(g));
  }
  out.add_all("", memory());
  return out;
}

void LRScheduler::load_state_dict(const StateDict& state) {
  check_entries("scheduler", state, state_dict());
  const int64_t epoch = state.count("last_epoch");
  std::vector<double> rates;
  for (size_t g = 0; g < optimizer_.num_groups(); ++g) {
    rates.push_back(state.number<double>(concat("group.", g, ".lr")));
    check_factor("scheduler", "lr", rates.back());
  }
  recall(state);
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

ExponentialLR::ExponentialLR(Optimizer& optimizer, const ExponentialLROptions& options)
    : LRScheduler(optimizer), options_(options) {
  LATHE_CHECK(ValueError, options.gamma > 0 && std::isfinite(options.gamma),
              "ExponentialLR: gamma must be positive and finite, got ", options.gamma);
  start();
}

double ExponentialLR::lr_at(int64_t epoch, double before, double initial) const {
  return epoch == 0 ? initial : before * options_.gamma;
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

double warm_restarts_factor(int64_t epoch, int64_t t_0, int64_t t_mult) {
  int64_t length = t_0, left = epoch;
  if (t_mult == 1) left %= t_0;
  while (left >= length) {
    left -= length;
    length *= t_mult;
  }
  return (1 +
          std::cos(std::numbers::pi * static_cast<double>(left) / static_cast<double>(length))) /
         2;
}

CosineAnnealingWarmRestarts::CosineAnnealingWarmRestarts(
    Optimizer& optimizer, const CosineAnnealingWarmRestartsOptions& options)
    : LRScheduler(optimizer), options_(options) {
  check_count("CosineAnnealingWarmRestarts", "t_0", options.t_0);
  check_count("CosineAnnealingWarmRestarts", "t_mult", options.t_mult);
  check_factor("CosineAnnealingWarmRestarts", "eta_min", options.eta_min);
  start();
}

double CosineAnnealingWarmRestarts::lr_at(int64_t epoch, double, double initial) const {
  return options_.eta_min +
         (initial - options_.eta_min) * warm_restarts_factor(epoch, options_.t_0, options_.t_mult);
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

PolynomialLR::PolynomialLR(Optimizer& optimizer, const PolynomialLROptions& options)
    : LRScheduler(optimizer), options_(options) {
  check_count("PolynomialLR", "total_iters", options.total_iters);
  check_factor("PolynomialLR", "power", options.power);
  start();
}

double PolynomialLR::lr_at(int64_t epoch, double, double initial) const {
  const double done = static_cast<double>(std::min(epoch, options_.total_iters)) /
                      static_cast<double>(options_.total_iters);
  return initial * std::pow(1 - done, options_.power);
}

double one_cycle_factor(int64_t step, const OneCycleLROptions& options) {
  const double first = 1 / options.div_factor, last = first / options.final_div_factor;
  const double end = static_cast<double>(options.total_steps - 1);
  const double rise = options.pct_start * static_cast<double>(options.total_steps) - 1;
  const double at = std::min(static_cast<double>(step), end);

  const auto anneal = [&](double from, double to, double begin_step, double end_step) {
    // A phase of no length has its end value.
    const double t = end_step > begin_step ? (at - begin_step) / (end_step - begin_step) : 1;
    if (options.anneal == Anneal::kLinear) return (to - from) * t + from;
    return to + (from - to) / 2 * (1 + std::cos(std::numbers::pi * t));
  };
  if (at <= rise) return anneal(first, 1, 0, rise);
  if (!options.three_phase) return anneal(1, last, rise, end);
  if (at <= 2 * rise) return anneal(1, first, rise, 2 * rise);
  return anneal(first, last, 2 * rise, end);
}

OneCycleLR::OneCycleLR(Optimizer& optimizer, const OneCycleLROptions& options)
    : LRScheduler(optimizer), options_(options) {
  check_count("OneCycleLR", "total_steps", options.total_steps);
  const double most = options.three_phase ? 0.5 : 1;
  LATHE_CHECK(ValueError, options.pct_start >= 0 && options.pct_start <= most,
              "OneCycleLR: pct_start must be from 0 to ", most, ", got ", options.pct_start);
  for (const auto& [name, value] : {std::pair("div_factor", options.div_factor),
                                    std::pair("final_div_factor", options.final_div_factor)}) {
    check_factor("OneCycleLR", name, value);
    LATHE_CHECK(ValueError, value > 0, "OneCycleLR: ", name, " must be positive, got ", value);
  }
  start();
}

double OneCycleLR::lr_at(int64_t epoch, double, double initial) const {
  return initial * one_cycle_factor(epoch, options_);
}

LambdaLR::LambdaLR(Optimizer& optimizer, std::function<double(int64_t)> factor)
    : LRScheduler(optimizer), factor_(std::move(factor)) {
  LATHE_CHECK(ValueError, factor_ != nullptr, "LambdaLR: the function is empty");
  start();
}

double LambdaLR::lr_at(int64_t epoch, double, double initial) const {
  return initial * factor_(epoch);
}

}  // namespace lathe::optim
