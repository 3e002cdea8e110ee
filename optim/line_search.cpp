// The strong Wolfe line search: bracket, then zoom. Contract: line_search.h.
#include "lathe/optim/line_search.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace lathe::optim {

namespace {

/// The minimum, in [low, high], of the cubic with the losses and slopes of a and b; the middle
/// where that cubic has none.
double cubic_minimum(const LinePoint& p, const LinePoint& q, double low, double high) {
  const LinePoint &a = p.t <= q.t ? p : q, &b = p.t <= q.t ? q : p;
  const double d1 = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t);
  const double square = d1 * d1 - a.slope * b.slope;
  if (!(square >= 0)) return (low + high) / 2;
  const double d2 = std::sqrt(square);
  const double t = b.t - (b.t - a.t) * ((b.slope + d2 - d1) / (b.slope - a.slope + 2 * d2));
  return std::isnan(t) ? (low + high) / 2 : std::clamp(t, low, high);
}

class Search {
 public:
  Search(const LinePoint& start, FunctionRef<LinePoint(double)> evaluate,
         const LineSearchOptions& options)
      : start_(start), evaluate_(evaluate), options_(options) {}

  LineSearchResult run(double first_t) {
    if (!bracket(first_t)) zoom();
    return {low_, evaluations_};
  }

 private:
  LinePoint at(double t) {
    ++evaluations_;
    LinePoint point = evaluate_(t);
    point.t = t;
    return point;
  }

  bool decreases(const LinePoint& p) const {
    return p.loss <= start_.loss + options_.sufficient_decrease * p.t * start_.slope;
  }
  bool is_flat(const LinePoint& p) const {
    return std::abs(p.slope) <= -options_.curvature * start_.slope;
  }

  void set_bracket(const LinePoint& a, const LinePoint& b) {
    const bool second = b.loss < a.loss;  // false if b's loss is NaN
    low_ = second ? b : a;
    high_ = second ? a : b;
  }

  /// Longer and longer steps, until a minimum lies between two of them. → true: low_ is the result
  bool bracket(double first_t) {
    LinePoint before = start_, now = at(first_t);
    for (; steps_ < options_.max_steps; ++steps_) {
      if (!decreases(now) || (steps_ > 1 && now.loss >= before.loss)) {
        set_bracket(before, now);
        return false;
      }
      if (is_flat(now)) {
        low_ = now;
        return true;
      }
      if (now.slope >= 0) {
        set_bracket(before, now);
        return false;
      }
      const double shortest = now.t + 0.01 * (now.t - before.t), longest = now.t * 10;
      const double t = cubic_minimum(before, now, shortest, longest);
      before = std::exchange(now, at(t));
    }
    set_bracket(start_, now);
    return true;
  }

  /// A trial near an end of the bracket gains little: the second one in a row is moved inwards.
  double kept_off_the_ends(double t) {
    const double left = std::min(low_.t, high_.t), right = std::max(low_.t, high_.t);
    const double margin = 0.1 * (right - left);
    const bool near = std::min(right - t, t - left) < margin;
    if (near && (slow_ || t >= right || t <= left)) {
      slow_ = false;
      return std::abs(t - right) < std::abs(t - left) ? right - margin : left + margin;
    }
    slow_ = near;
    return t;
  }

  void zoom() {
    for (; steps_ < options_.max_steps; ++steps_) {
      const double width = std::abs(high_.t - low_.t) * options_.largest_component;
      if (width < options_.tolerance_change) return;
      const double trial =
          cubic_minimum(low_, high_, std::min(low_.t, high_.t), std::max(low_.t, high_.t));
      const LinePoint now = at(kept_off_the_ends(trial));
      if (!decreases(now) || now.loss >= low_.loss) {
        set_bracket(low_, now);
        continue;
      }
      const bool done = is_flat(now);
      if (!done && now.slope * (high_.t - low_.t) >= 0) high_ = low_;
      low_ = now;
      if (done) return;
    }
  }

  const LinePoint& start_;
  FunctionRef<LinePoint(double)> evaluate_;
  const LineSearchOptions& options_;
  LinePoint low_, high_;  // the bracket: low_ has the lower loss
  bool slow_ = false;     // the trial before was near an end
  int64_t steps_ = 0;
  int64_t evaluations_ = 0;
};

}  // namespace

LineSearchResult search_line(const LinePoint& start, double first_t,
                             FunctionRef<LinePoint(double t)> evaluate,
                             const LineSearchOptions& options) {
  return Search(start, evaluate, options).run(first_t);
}

}  // namespace lathe::optim
