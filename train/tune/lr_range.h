// The learning-rate range test as numbers and as a picture. find_lr.h runs it on a model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lathe/core/config.h"

namespace lathe::train {

struct LrRangeOptions {
  double min_lr = 1e-5, max_lr = 10;
  int64_t steps = 100;
  double smoothing = 0.9;  // weight of the earlier losses in the smoothed loss
  double divergence = 4;   // the test ends if the smoothed loss exceeds this times its minimum
  double skipped = 0.1;    // part of `steps`, at the beginning, that no suggestion comes from
};

/// One step of the test, made with this learning rate.
struct LrRangePoint {
  double lr, loss, smoothed;
};

/// Why there is no suggestion, or what makes it doubtful.
enum class LrRemark {
  kNone,
  kTooFewSteps,  // were made
  kNoFall,       // of the loss
  kMayBeChance,  // the loss falls by no more than it fluctuates
  kUnsteady,     // two halves of the steps suggest different rates
  kStillFalls,   // at the highest rate: look further
};

/// What a range test says about the learning rate.
struct LrSuggestion {
  double lr = 0;  // 0: there is none
  LrRemark remark = LrRemark::kNone;
};

/// Learning rates that rise by a constant factor from min_lr to max_lr, and the losses that they
/// lead to. The loss is smoothed by an exponential mean with its bias towards 0 removed: after step
/// i,
///   m = smoothing · m + (1 - smoothing) · loss;  smoothed = m / (1 - smoothing^(i+1)).
/// ref: Smith 2015 (arXiv:1506.01186), section 3.3; exponential, smoothed, without the first
/// points: Gugger 2018, "How do you find a good learning rate", and the finders of fastai and
/// PyTorch Lightning.
class LATHE_API LrRange {
 public:
  /// throws: ValueError unless 0 < min_lr < max_lr, their quotient is finite, and steps >= 2.
  explicit LrRange(const LrRangeOptions& options);

  /// The learning rate of step 0, 1, ….
  double lr_at(int64_t step) const;
  /// Adds the loss of the next step. A loss that is not finite is not kept.   → false if that was
  /// the last step: the loss is not finite, the smoothed loss exceeds `divergence` times its
  /// minimum, or all steps are made
  bool add(double loss);

  const std::vector<LrRangePoint>& points() const { return points_; }
  bool diverged() const { return diverged_; }
  /// The point with the lowest smoothed loss, from first_used() on if there are any; points() must
  /// not be empty.
  const LrRangePoint& lowest() const;
  /// The first point that a suggestion may come from. The means before it are of few losses.
  size_t first_used() const;
  /// The learning rate around which the smoothed loss falls most steeply over log(lr), measured
  /// over an eighth of the points, from first_used() to the lowest point. None if
  ///   - there are fewer than 4 / (1 - smoothing) points: 40 with the usual smoothing;
  ///   - the smoothed loss falls nowhere there;
  ///   - it falls by no more than five standard errors of such a mean: its fall may be chance;
  ///   - the odd steps alone and the even steps alone suggest rates that differ by more than half a
  ///     decade, or one half suggests none: the place of the fall is chance.
  LrSuggestion suggestion() const;

 private:
  double standard_error() const;
  bool few_points() const;
  bool is_steady() const;

  LrRangeOptions options_;
  std::vector<LrRangePoint> points_;
  double mean_ = 0;
  bool diverged_ = false;
};

/// The smoothed losses over a logarithmic axis, `width` by `height` characters, with the axes'
/// texts. '|' marks the column of the suggestion, '.' the points before first_used().
LATHE_API std::string lr_plot(const LrRange& range, int width, int height);

/// The same plot as SVG, with the single losses behind the smoothed ones.
LATHE_API std::string lr_svg(const LrRange& range);

}  // namespace lathe::train
