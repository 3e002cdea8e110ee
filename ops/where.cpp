// where and masked_fill: checks and gradients. Contracts: where.h; kernels:
// elementwise_kernels/where_cpu.cpp, where_cuda.cu.
#include "lathe/ops/where.h"

#include "lathe/autograd/record.h"
#include "lathe/core/dispatch.h"
#include "lathe/core/hooks/range.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/inplace.h"
#include "lathe/ops/promote.h"
#include "lathe/ops/reduce.h"

namespace lathe {

using autograd::Needs;
using autograd::Saved;

namespace {

void check_condition(const char* op, const char* name, const Tensor& cond) {
  LATHE_CHECK(DTypeError, cond.dtype() == kBool, op, ": ", name, " must be bool (", name, ": ",
              cond, ")");
}

/// a and b have one dtype. Each is on cond's device, or a 0-d tensor on the CPU.
Tensor choose(const Tensor& cond, const Tensor& a, const Tensor& b) {
  const Shape shape =
      broadcast_shapes("where", cond.shape(), broadcast_shapes("where", a.shape(), b.shape()));
  const auto is_model = [&](const Tensor& t) { return t.shape() == shape && !t.is_contiguous(); };
  Tensor y = is_model(a) ? empty_like(a)
             : is_model(b)
                 ? empty_like(b)
                 : empty_strided(shape, contiguous_strides(shape), a.dtype(), cond.device());
  LATHE_DISPATCH(cond.device(), where(y, cond, a, b));

  autograd::record(
      "where", y, {a, b},
      [cond = Saved(cond), as = a.shape(), bs = b.shape()](const Tensor& dy, const Needs& need) {
        Tensor da, db;
        if (need[0]) da = sum_to_shape(where(cond.get(), dy, 0), as);
        if (need[1]) db = sum_to_shape(where(cond.get(), 0, dy), bs);
        return Tensors{da, db};
      });
  return y;
}

}  // namespace

Tensor where(const Tensor& cond, const Tensor& a, const Tensor& b) {
  const profile::OpRange range("where", {cond, a, b});
  check_condition("where", "cond", cond);
  const auto prepare = [&](const Tensor& t) {
    check_devices("where", t, cond);
    const Tensor same = cast(t, result_dtype(a, b));
    // A number on the CPU travels with the kernel's arguments, unless a gradient must come back to
    // it.
    const bool number = same.ndim() == 0 && same.device().is_cpu() && !same.requires_grad();
    return number ? same : to_device(same, cond.device());
  };
  return choose(cond, prepare(a), prepare(b));
}
/// A number as an operand beside t. Unlike an operand of arithmetic it is not cut to t's range.
static Tensor choice(Scalar number, const Tensor& t) {
  const Tensor chosen = scalar_like(number, t);
  check_holds("where", chosen.dtype(), number);
  return chosen;
}
Tensor where(const Tensor& cond, const Tensor& a, Scalar b) { return where(cond, a, choice(b, a)); }
Tensor where(const Tensor& cond, Scalar a, const Tensor& b) { return where(cond, choice(a, b), b); }

static void check_masked(const char* op, const Tensor& x, const Tensor& mask, Scalar value) {
  check_condition(op, "mask", mask);
  check_number(op, value, x);
}
static void check_masked(const char* op, const Tensor& x, const Tensor& mask, const Tensor& value) {
  check_condition(op, "mask", mask);
  LATHE_CHECK(ShapeError, value.ndim() == 0, op,
              ": value must be one number, a 0-d tensor (value: ", value, ")");
  LATHE_CHECK(DTypeError, category_of(value.dtype()) <= category_of(x.dtype()), op,
              ": value does not fit ", x.dtype(), " (x: ", x, ", value: ", value, ")");
  if (is_integer(x.dtype()) && value.device().is_cpu()) {  // a GPU's would be waited for
    check_holds(op, x.dtype(), value.item_scalar());
  }
}

Tensor masked_fill(const Tensor& x, const Tensor& mask, Scalar value) {
  const profile::OpRange range("masked_fill", {x, mask});
  profile::note_arguments(value);
  check_masked("masked_fill", x, mask, value);
  return where(mask, value, x);
}

Tensor masked_fill(const Tensor& x, const Tensor& mask, const Tensor& value) {
  const profile::OpRange range("masked_fill", {x, mask, value});
  check_masked("masked_fill", x, mask, value);
  return where(mask, cast(value, x.dtype()), x);
}

/// The write that both forms of masked_fill_ end in.
template <class Value>
static const Tensor& fill_masked(const Tensor& x, const Tensor& mask, const Value& value) {
  autograd::check_in_place("masked_fill_", x);
  check_masked("masked_fill_", x, mask, value);
  LATHE_CHECK(ShapeError, broadcast_shapes("masked_fill_", x.shape(), mask.shape()) == x.shape(),
              "masked_fill_: mask does not broadcast to x (x: ", x, ", mask: ", mask, ")");
  return assign_("masked_fill_", x, masked_fill(x, mask, value));
}

const Tensor& masked_fill_(const Tensor& x, const Tensor& mask, Scalar value) {
  const profile::OpRange range("masked_fill_", {x, mask});
  return fill_masked(x, mask, value);
}
const Tensor& masked_fill_(const Tensor& x, const Tensor& mask, const Tensor& value) {
  const profile::OpRange range("masked_fill_", {x, mask, value});
  return fill_masked(x, mask, value);
}

}  // namespace lathe
