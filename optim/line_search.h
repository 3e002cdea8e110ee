// The line search of LBFGS: a step length that satisfies the strong Wolfe conditions.
#pragma once

#include "lathe/core/function_ref.h"
#include "lathe/core/tensor.h"

namespace lathe::optim {

/// One point on the line x + t * d.
struct LinePoint {
  double t = 0;
  double loss = 0;
  double slope = 0;  // d loss / dt
  Tensor gradient = {};
};

struct LineSearchResult {
  LinePoint point;
  int64_t evaluations;
};

struct LineSearchOptions {
  double largest_component;           // of d, in absolute value
  double tolerance_change = 1e-9;     // a bracket that moves no component of x by more is not split
  double sufficient_decrease = 1e-4;  // c1
  double curvature = 0.9;             // c2
  int64_t max_steps = 25;
};

/// Finds t with loss(t) <= loss(0) + c1 * t * slope(0) and |slope(t)| <= c2 * |slope(0)|: first a
/// bracket that contains such a t, from `first_t` on, then a smaller one, by cubic interpolation.
/// If the limits end the search, it returns the point of the bracket with the lowest loss.
///   start     t = 0, with a negative slope
///   evaluate  the point at t
/// ref: Nocedal and Wright 2006, Algorithms 3.5 and 3.6, equation 3.59.
LATHE_API LineSearchResult search_line(const LinePoint& start, double first_t,
                                       FunctionRef<LinePoint(double t)> evaluate,
                                       const LineSearchOptions& options);

}  // namespace lathe::optim
