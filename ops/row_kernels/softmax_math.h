// The arithmetic of ops/softmax.h per number, shared by the CPU loops and the CUDA kernels.
#pragma once

#include "lathe/core/config.h"

namespace lathe::math {

/// m is the largest element of the line, log_sum = log(sum exp(x - m)).
template <class A>
[[gnu::always_inline]] LATHE_HD inline A log_softmax(A x, A m, A log_sum) {
  return (x - m) - log_sum;
}

/// sum is that of dy * y over the line.
template <class A>
[[gnu::always_inline]] LATHE_HD inline A softmax_grad(A y, A dy, A sum) {
  return dy * y - y * sum;
}

/// p = exp(y); sum is that of dy over the line.
template <class A>
[[gnu::always_inline]] LATHE_HD inline A log_softmax_grad(A p, A dy, A sum) {
  return dy - p * sum;
}

}  // namespace lathe::math
