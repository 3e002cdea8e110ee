// The learning-rate range test as numbers and as a picture; find_lr.cpp runs it on a model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lathe/tools/cli/row.h"

namespace lathe::cli {

struct LrRangeOptions {
  double min_lr = 1e-5, max_lr = 10;
  int64_t steps = 100;
  double smoothing = 0.9;  // weight of what came before in the smoothed loss
  double divergence = 4;   // the test ends where the smoothed loss exceeds this times its minimum
};

/// One step of the test, made with this learning rate.
struct LrRangePoint {
  double lr, loss, smoothed;
};

/// Learning rates that rise by a constant factor from min_lr to max_lr, and the losses they lead
/// to. The loss is smoothed by an exponential mean whose bias towards 0 is taken out: after step i,
///   m = smoothing · m + (1 - smoothing) · loss;  smoothed = m / (1 - smoothing^(i+1)).
/// ref: Smith 2015 (arXiv:1506.01186), section 3.3; exponential: Gugger 2018, "How do you find a
/// good learning rate".
class LrRange {
 public:
  /// throws: UsageError unless 0 < min_lr < max_lr and steps >= 2.
  explicit LrRange(const LrRangeOptions& options);

  /// Of step 0, 1, …
  double lr_at(int64_t step) const;
  /// Adds the loss of the next step.   → false if that was the last one: the loss is no number, the
  /// smoothed loss exceeds `divergence` times its minimum, or all steps are made. A loss that is no
  /// number is not kept.
  bool add(double loss);

  const std::vector<LrRangePoint>& points() const { return points_; }
  bool diverged() const { return diverged_; }
  /// Where the smoothed loss is lowest; points() must not be empty.
  const LrRangePoint& lowest() const;
  /// The learning rate around which (an eighth of the points) the smoothed loss falls most steeply
  /// over log(lr), left of its lowest
  /// point; 0 if it falls nowhere.
  double suggestion() const;

 private:
  LrRangeOptions options_;
  std::vector<LrRangePoint> points_;
  double mean_ = 0;
  bool diverged_ = false;
};

/// The smoothed losses over a logarithmic axis, `width` by `height` characters and the axes' texts;
/// '|' is the suggestion's column.
std::string lr_plot(const LrRange& range, int width, int height);

Row lr_range_row(const LrRangePoint& point, int64_t step);

}  // namespace lathe::cli
