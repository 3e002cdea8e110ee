// Arithmetic in several steps, by elementwise ops. Contracts: arithmetic.h.
#include "lathe/ops/arithmetic.h"

#include <limits>
#include <optional>

#include "lathe/core/hooks/range.h"
#include "lathe/core/visit.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/floating_check.h"
#include "lathe/ops/promote.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/where.h"

namespace lathe {

/// result_dtype() of three tensors.
static DType common_dtype(const Tensor& input, const Tensor& a, const Tensor& b) {
  std::optional<DType> full, number;  // of the tensors with dimensions; of the 0-d ones
  for (const Tensor* t : {&input, &a, &b}) {
    std::optional<DType>& dtype = t->ndim() == 0 ? number : full;
    dtype = dtype ? promote_types(*dtype, t->dtype()) : t->dtype();
  }
  if (!full || !number) return full ? *full : *number;
  return category_of(*number) > category_of(*full) ? *number : *full;
}

/// input + step(value * a, b), in the dtype that all three promote each other to.
template <class Step>
static Tensor add_scaled(const char* op, const Tensor& input, const Tensor& a, const Tensor& b,
                         Scalar value, Step step) {
  check_devices(op, input, a);
  check_devices(op, a, b);
  check_devices(op, input, b);
  const DType dtype = common_dtype(input, a, b);
  LATHE_CHECK(DTypeError, dtype != kBool, op, ": not defined for bool (input: ", input, ", a: ", a,
              ", b: ", b, ")");
  LATHE_CHECK(DTypeError, category_of(value.dtype()) <= category_of(dtype), op, ": value ", value,
              " does not fit ", dtype, " (input: ", input, ", a: ", a, ", b: ", b, ")");
  check_holds(op, dtype, value);
  const DType wide = compute_dtype(dtype);
  const Tensor change = step(mul(cast(a, wide), value), cast(b, wide));
  return cast(add(cast(input, wide), change), dtype);
}

Tensor addcmul(const Tensor& input, const Tensor& a, const Tensor& b, Scalar value) {
  const profile::OpRange range("addcmul", {input, a, b});
  return add_scaled("addcmul", input, a, b, value,
                    [](const Tensor& p, const Tensor& q) { return mul(p, q); });
}

Tensor addcdiv(const Tensor& input, const Tensor& a, const Tensor& b, Scalar value) {
  const profile::OpRange range("addcdiv", {input, a, b});
  for (const Tensor* t : {&input, &a, &b}) check_floating("addcdiv", *t);
  return add_scaled("addcdiv", input, a, b, value,
                    [](const Tensor& p, const Tensor& q) { return div(p, q); });
}

Tensor logaddexp(const Tensor& a_in, const Tensor& b_in) {
  const profile::OpRange range("logaddexp", {a_in, b_in});
  check_floating("logaddexp", a_in);
  check_floating("logaddexp", b_in);
  const DType dtype = result_dtype(a_in, b_in), wide = compute_dtype(dtype);
  const Tensor a = cast(a_in, wide), b = cast(b_in, wide);
  // Not maximum(): its halves at a = b would take the second derivative away.
  const Tensor first = ge(a, b), high = where(first, a, b), low = where(first, b, a);
  const Tensor infinities = logical_and(eq(a, b), isinf(a));
  return cast(add(high, log1p(exp(where(infinities, 0, sub(low, high))))), dtype);
}

/// The largest finite number of a floating dtype.
static double largest_of(DType dtype) {
  switch (dtype) {
    case kF16: return 65504.0;
    case kBF16: return 3.3895313892515355e38;
    case kF32: return std::numeric_limits<float>::max();
    default: return std::numeric_limits<double>::max();
  }
}

Tensor nan_to_num(const Tensor& x, const NanToNumOptions& opt) {
  const profile::OpRange range("nan_to_num", {x});
  if (!is_floating(x.dtype())) return clone(x);
  const double largest = largest_of(x.dtype());
  const Tensor fixed = x.detach(), infinite = isinf(fixed);
  const Tensor numbers = where(isnan(fixed), opt.nan, x);
  const Tensor below =
      where(logical_and(infinite, gt(fixed, 0)), opt.posinf.value_or(largest), numbers);
  return where(logical_and(infinite, lt(fixed, 0)), opt.neginf.value_or(-largest), below);
}

}  // namespace lathe
