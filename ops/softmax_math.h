// The arithmetic of ops/softmax.h, per number: used by the CPU loops and by the CUDA kernels.
#pragma once

#include "lathe/core/config.h"

namespace lathe::math {

/// m: the largest of the line, log_sum: log(sum exp(x - m)).
template <class A>
[[gnu::always_inline]] LATHE_HD inline A log_softmax(A x, A m, A log_sum) {
  return (x - m) - log_sum;
}

/// sum: sum over the line of dy * y.
template <class A>
[[gnu::always_inline]] LATHE_HD inline A softmax_grad(A y, A dy, A sum) {
  return dy * y - y * sum;
}

/// p: exp(y), sum: sum over the line of dy.
template <class A>
[[gnu::always_inline]] LATHE_HD inline A log_softmax_grad(A p, A dy, A sum) {
  return dy - p * sum;
}

}  // namespace lathe::math
