// The arithmetic of loss scaling: the same text for the CPU (grad_scaler_cpu.cpp) and the CUDA
// kernels.
#pragma once

#include <cfloat>
#include <cstdint>

#include "lathe/core/config.h"

namespace lathe::optim {

/// What the device counts besides the scale.
struct LossScaleCounts {
  int64_t steps = 0, skipped = 0;
  int64_t floor_step = 0;  // the first step in which the scale would have fallen below the floor
  int64_t skipped_by_then = 0;  // `skipped` in that step
};

/// What the host is told after a step.
struct LossScaleReport {
  double scale = 0;
  LossScaleCounts counts;
};

/// The scale s and the growth count c after a step:
///   overflow:   s ← s · backoff, c ← 0; but if s would fall below the floor, s stays and the step
///               is recorded
///   otherwise:  c ← c + 1; when c reaches the interval: s ← s · growth if that is finite, c ← 0
/// Products are computed in double and rounded to f32.
struct LossScaleRule {
  double growth_factor, backoff_factor, min_scale;
  int64_t growth_interval;
  bool dynamic;  // false: s and c stay

  LATHE_HD void update(bool overflow, float& scale, int64_t& tracker,
                       LossScaleCounts& counts) const {
    ++counts.steps;
    if (overflow) ++counts.skipped;
    if (!dynamic) return;
    if (overflow) {
      tracker = 0;
      const float less = static_cast<float>(static_cast<double>(scale) * backoff_factor);
      if (static_cast<double>(less) >= min_scale) {
        scale = less;
      } else if (counts.floor_step == 0) {
        counts.floor_step = counts.steps;
        counts.skipped_by_then = counts.skipped;
      }
    } else if (++tracker >= growth_interval) {
      tracker = 0;
      const double more = static_cast<double>(scale) * growth_factor;
      if (static_cast<float>(more) <= FLT_MAX) scale = static_cast<float>(more);
    }
  }
};

/// A scaled gradient: multiplied by 1 / scale, which is rounded to f32 first as in PyTorch.
template <class C>
struct Unscale {
  C factor;
  LATHE_HD static Unscale by(float scale) {
    return {static_cast<C>(static_cast<float>(1.0 / static_cast<double>(scale)))};
  }
  LATHE_HD C operator()(C x) const { return x * factor; }
};

/// False for inf and NaN: x - x is 0 for every other number. A comparison, so that loops vectorise.
template <class C>
LATHE_HD bool is_finite(C x) {
  return x - x == C(0);
}

}  // namespace lathe::optim
