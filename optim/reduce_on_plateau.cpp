// ReduceLROnPlateau: which metrics improve, when a reduction is made, and the saved memory of both.
#include "lathe/optim/reduce_on_plateau.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lathe::optim {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

ReduceLROnPlateau::ReduceLROnPlateau(Optimizer& optimizer, const ReduceLROnPlateauOptions& options)
    : LRScheduler(optimizer), options_(options), best_(options.maximize ? -kInfinity : kInfinity) {
  LATHE_CHECK(ValueError, options.factor >= 0 && options.factor < 1,
              "ReduceLROnPlateau: factor must be from 0 to below 1, got ", options.factor);
  for (const auto& [name, value] :
       {std::pair("patience", options.patience), std::pair("cooldown", options.cooldown)}) {
    LATHE_CHECK(ValueError, value >= 0, "ReduceLROnPlateau: ", name, " must not be negative, got ",
                value);
  }
  for (const auto& [name, value] :
       {std::pair("threshold", options.threshold), std::pair("min_lr", options.min_lr),
        std::pair("eps", options.eps)}) {
    LATHE_CHECK(ValueError, value >= 0 && std::isfinite(value), "ReduceLROnPlateau: ", name,
                " must be finite and not negative, got ", value);
  }
  start();
}

double ReduceLROnPlateau::lr_at(int64_t epoch, double before, double initial) const {
  return epoch == 0 ? initial : before;
}

bool ReduceLROnPlateau::improves(double metric) const {
  const double sign = options_.maximize ? 1 : -1;
  const double bound = options_.relative ? best_ * (1 + sign * options_.threshold)
                                         : best_ + sign * options_.threshold;
  return options_.maximize ? metric > bound : metric < bound;
}

void ReduceLROnPlateau::adapt(double metric, int64_t, std::vector<double>& rates) {
  if (improves(metric)) {
    best_ = metric;
    bad_metrics_ = 0;
  } else {
    ++bad_metrics_;
  }
  if (cooldown_left_ > 0) {
    --cooldown_left_;
    bad_metrics_ = 0;
  }
  if (bad_metrics_ <= options_.patience) return;
  bad_metrics_ = 0;
  cooldown_left_ = options_.cooldown;
  for (double& lr : rates) {
    const double reduced = std::max(lr * options_.factor, options_.min_lr);
    if (lr - reduced > options_.eps) lr = reduced;
  }
}

StateDict ReduceLROnPlateau::memory() const {
  StateDict out;
  out.add_number("best", best_);
  out.add_number("bad_metrics", bad_metrics_);
  out.add_number("cooldown_left", cooldown_left_);
  return out;
}

void ReduceLROnPlateau::recall(const StateDict& memory) {
  const double best = memory.number<double>("best");
  const int64_t bad_metrics = memory.count("bad_metrics");
  const int64_t cooldown_left = memory.count("cooldown_left");
  LATHE_CHECK(ValueError, !std::isnan(best), "ReduceLROnPlateau: best must be a number, got ",
              best);
  best_ = best;
  bad_metrics_ = bad_metrics;
  cooldown_left_ = cooldown_left;
}

}  // namespace lathe::optim
