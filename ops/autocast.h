// Act 1 of an op: mixed precision. One call of amp::cast() says what autocast does with its inputs.
#pragma once

#include <array>
#include <type_traits>

#include "lathe/autograd/autocast.h"
#include "lathe/autograd/cast_cache.h"
#include "lathe/core/tensor.h"
#include "lathe/ops/cast.h"

namespace lathe::amp {

/// kHalf: computed in the scope's half type (convolution, linear, matmul).
/// kFloat: computed in f32 (softmax, losses, exp/log/pow, norms, sums).
/// An op without a policy computes in the dtype of its inputs.
enum class Policy { kHalf, kFloat };
inline constexpr Policy kHalf = Policy::kHalf, kFloat = Policy::kFloat;

/// The dtype that `policy` wants `t` to have now. Outside an Autocast scope of t's device that is
/// t's own dtype; f64 and integers always keep theirs.
inline DType target_dtype(Policy policy, const Tensor& t) {
  if (!t.defined() || !autocast_enabled(t.device())) return t.defined() ? t.dtype() : kF32;
  const bool castable = t.dtype() == kF32 || is_half(t.dtype());  // f64 and integers stay
  if (!castable) return t.dtype();
  return policy == Policy::kHalf ? autocast_dtype(t.device()) : kF32;
}

/// lathe::cast(x, dtype), but without a copy where x's optimiser keeps a half one (autograd/
/// half_copy.h). The result then shares that memory and must not be written.
LATHE_API Tensor cast_to_read(const Tensor& x, DType dtype);

/// The inputs, converted to the dtype that `policy` wants. Differentiable. Outside an Autocast
/// scope it returns them as they are. A copy made once is found again in the cache (cast_cache.h).
template <class... Inputs>
auto cast(Policy policy, const Inputs&... inputs) {
  const auto one = [policy](const Tensor& t) {
    const DType dtype = target_dtype(policy, t);
    if (!t.defined() || t.dtype() == dtype) return t;
    Tensor result = find_cast(t, dtype);
    if (!result.defined()) keep_cast(t, result = cast_to_read(t, dtype));
    return result;
  };
  if constexpr (sizeof...(Inputs) == 1) {
    return one(inputs...);
  } else {
    return std::array<Tensor, sizeof...(Inputs)>{one(inputs)...};
  }
}

}  // namespace lathe::amp
