// The arithmetic of ops/batch_norm.h per number, shared by the CPU loops and the CUDA kernels.
// t = x - mean, scale = weight / sqrt(var + eps).
#pragma once

#include <cmath>

#include "lathe/core/config.h"

namespace lathe::math {

/// a * b + c; on a GPU rounded once, which is one instruction instead of two.
template <class S>
[[gnu::always_inline]] LATHE_HD inline S batch_norm_multiply_add(S a, S b, S c) {
#ifdef __CUDA_ARCH__
  return fma(a, b, c);
#else
  return a * b + c;
#endif
}

template <class S>
[[gnu::always_inline]] LATHE_HD inline S batch_norm_affine(S t, S scale, S bias) {
  return batch_norm_multiply_add(t, scale, bias);
}

/// 1 / sqrt(var + eps), computed in f64.
template <class S>
LATHE_HD inline S batch_norm_invstd(S var, double eps) {
  return static_cast<S>(1 / std::sqrt(static_cast<double>(var) + eps));
}

/// relu(v); NaN stays NaN.
template <class S>
[[gnu::always_inline]] LATHE_HD inline S batch_norm_relu(S v) {
  return v < S(0) ? S(0) : v;
}

/// dy where y > 0 or y is NaN, else 0; y may be the value before or after relu. As math::ReluGrad.
template <class S>
[[gnu::always_inline]] LATHE_HD inline S batch_norm_passed(S dy, S y) {
  return y <= S(0) ? S(0) : dy;
}

/// dx = scale * g - slope * t - offset. With batch statistics over the m values of a channel,
/// slope = scale / (var + eps) * sum(g t) / m and offset = scale * sum(g) / m. Without them both
/// are 0, and t has no influence, even where it is NaN or infinite.
template <class S>
[[gnu::always_inline]] LATHE_HD inline S batch_norm_grad(S g, S t, S scale, S slope, S offset) {
  const S rest = slope == S(0) ? S(0) : slope * t;
  return batch_norm_multiply_add(scale, g, -rest) - offset;
}

}  // namespace lathe::math
