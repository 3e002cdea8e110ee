// Whole pieces of a size: how many there are, and the size that they fill.
#pragma once

#include <type_traits>

#include "lathe/core/config.h"

namespace lathe {

/// a / b, rounded up: how many pieces of b hold a. a >= 0, b > 0, and a + b must fit.
template <class A, class B>
LATHE_HD constexpr std::common_type_t<A, B> ceil_div(A a, B b) {
  return (a + b - 1) / b;
}

/// The smallest multiple of `step` that is not below a. The same limits.
template <class A, class B>
LATHE_HD constexpr std::common_type_t<A, B> round_up(A a, B step) {
  return ceil_div(a, step) * step;
}

}  // namespace lathe
