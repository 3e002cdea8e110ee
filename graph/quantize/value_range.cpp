// Ranges of values and their scales. Contract: value_range.h.
#include "lathe/graph/quantize/value_range.h"

#include <algorithm>
#include <cfloat>
#include <cmath>

#include "lathe/core/error.h"
#include "lathe/core/format.h"

namespace lathe::jit {

namespace {

constexpr size_t kBins = 2048;

double center_of(size_t bin) {
  return (static_cast<double>(bin) + 0.5) / static_cast<double>(kBins);
}

}  // namespace

double ValueRange::largest() const {
  return std::max(static_cast<double>(high_), -static_cast<double>(low_));
}

void ValueRange::widen(const Tensor& x_in, const std::string& what) {
  const Tensor x = x_in.contiguous();
  const float* const values = x.data<float>();
  for (int64_t i = 0; i < x.numel(); ++i) {
    LATHE_CHECK(ValueError, std::isfinite(values[i]), "quantize: ", what, " is ", values[i],
                " for calibration data; ranges need finite numbers");
    low_ = std::min(low_, values[i]);
    high_ = std::max(high_, values[i]);
  }
  seen_ += x.numel();
}

void ValueRange::count(const Tensor& x_in) {
  const double most = largest();
  bins_.resize(kBins);
  if (most == 0) return;
  const Tensor x = x_in.contiguous();
  const float* const values = x.data<float>();
  for (int64_t i = 0; i < x.numel(); ++i) {
    if (values[i] == 0) continue;  // is exact whatever the scale
    const double part = std::fabs(static_cast<double>(values[i])) / most;
    ++bins_[std::min(kBins - 1, static_cast<size_t>(part * static_cast<double>(kBins)))];
  }
}

/// The part of the largest element at which to cut, so that the squares of rounding and cutting add
/// up to least. Rounding is off by step^2 / 12 on average.
double ValueRange::least_squares(double levels) const {
  double best = 1, least = HUGE_VAL;
  for (int percent = 100; percent >= 20; --percent) {
    const double cut = percent / 100.0, step = cut / levels, rounding = step * step / 12;
    double sum = 0;
    for (size_t bin = 0; bin < bins_.size(); ++bin) {
      const double beyond = std::max(0.0, center_of(bin) - cut);
      sum += static_cast<double>(bins_[bin]) * (beyond > 0 ? beyond * beyond : rounding);
    }
    if (sum < least) {
      least = sum;
      best = cut;
    }
  }
  return best;
}

double ValueRange::quantile(double percent) const {
  // Zeros were not counted in bins, but are elements.
  int64_t above = 0;
  const double most = static_cast<double>(seen_) * (1 - percent / 100);
  for (size_t bin = bins_.size(); bin-- > 0;) {
    above += bins_[bin];
    if (static_cast<double>(above) > most) return static_cast<double>(bin + 1) / kBins;
  }
  return 1;
}

double ValueRange::scale(const QuantizeOptions& options) const {
  const double levels = dtype() == kU8 ? 255 : 127, most = largest();
  double part = 1;
  if (options.range == RangeRule::kLeastSquares) part = least_squares(levels);
  if (options.range == RangeRule::kPercentile) part = quantile(options.percentile);
  const double step = part * most / levels;
  return static_cast<float>(step) < FLT_MIN ? 1 : static_cast<double>(static_cast<float>(step));
}

}  // namespace lathe::jit
