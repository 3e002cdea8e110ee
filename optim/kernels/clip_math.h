// The arithmetic of gradient clipping: the same text for the CPU loops (clip_grad_cpu.cpp) and the
// CUDA kernels.
#pragma once

#include <cmath>

#include "lathe/core/config.h"

namespace lathe::optim {

/// A running p-norm without its final root.
struct NormSum {
  double p, sum = 0;

  LATHE_HD void add(double x) {
    const double a = std::fabs(x);
    if (p == HUGE_VAL) {
      sum = a > sum || a != a ? a : sum;  // a NaN stays
    } else {
      sum += p == 1 ? a : p == 2 ? a * a : std::pow(a, p);
    }
  }
  LATHE_HD void join(const NormSum& part) {
    if (p == HUGE_VAL) return add(part.sum);
    sum += part.sum;
  }
  LATHE_HD double root() const {
    if (p == 2) return std::sqrt(sum);
    return p == 1 || p == HUGE_VAL ? sum : std::pow(sum, 1 / p);
  }
};

/// What clip_grad_norm_ multiplies gradients of norm `total` with.
LATHE_HD inline double clip_factor(double total, double max_norm) {
  const double ratio = max_norm / (total + 1e-6);
  return ratio > 1 ? 1 : ratio;  // a NaN stays
}

template <class C>
struct Scale {
  C factor;
  LATHE_HD C operator()(C x) const { return x * factor; }
};

template <class C>
struct Clamp {
  C limit;
  LATHE_HD C operator()(C x) const { return x > limit ? limit : x < -limit ? -limit : x; }
};

}  // namespace lathe::optim
