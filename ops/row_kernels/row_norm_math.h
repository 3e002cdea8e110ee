// The arithmetic of ops/row_norm.h per number, shared by the CPU loops and the CUDA kernels.
// rstd = 1 / sqrt(var + eps).
#pragma once

#include "lathe/core/config.h"

namespace lathe::math {

template <class A>
[[gnu::always_inline]] LATHE_HD inline A row_norm_hat(A x, A mean, A rstd) {
  return (x - mean) * rstd;
}

template <class A>
[[gnu::always_inline]] LATHE_HD inline A row_norm_affine(A xhat, A weight, A bias) {
  return xhat * weight + bias;
}

/// dx, with g = dy * weight. mean_g and mean_gx are the means of g and of g * xhat over the row.
template <class A>
[[gnu::always_inline]] LATHE_HD inline A row_norm_grad(A g, A xhat, A rstd, A mean_g, A mean_gx) {
  return rstd * (g - mean_g - xhat * mean_gx);
}

}  // namespace lathe::math
