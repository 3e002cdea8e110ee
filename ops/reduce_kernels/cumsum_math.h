// The types in which ops/cumsum.h adds up, on host and device.
#pragma once

#include <cstdint>

#include "lathe/core/visit.h"

namespace lathe::math {

/// A type wider than the result's, so that a sum is rounded once, when it is stored.
template <class Out>
struct RunningSumOf {
  using type = SumType<Out>;
};
template <>
struct RunningSumOf<float> {
  using type = double;
};
template <>
struct RunningSumOf<int64_t> {
  using type = uint64_t;  // wraps
};
template <class Out>
using RunningSum = typename RunningSumOf<Out>::type;

}  // namespace lathe::math
