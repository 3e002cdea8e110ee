// Arithmetic on two operands: checks, promotion, gradients. Contracts: binary.h. Kernels:
// elementwise_kernels/binary_cpu.cpp. Comparisons: binary_compare.cpp.
#include "lathe/ops/binary.h"

#include "lathe/autograd/accumulate.h"
#include "lathe/autograd/record.h"
#include "lathe/autograd/sole_owner.h"
#include "lathe/core/dispatch.h"
#include "lathe/core/hooks/range.h"
#include "lathe/core/visit.h"
#include "lathe/ops/autocast.h"
#include "lathe/ops/binary_acts.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/index.h"
#include "lathe/ops/promote.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/where.h"

namespace lathe {

using autograd::record;
using autograd::Saved;
using autograd::SavedOutput;

namespace binary {

Operands prepare(const char* op, const Tensor& a, const Tensor& b, bool floating) {
  check_devices(op, a, b);
  DType dtype = result_dtype(a, b);
  if (floating && !is_floating(dtype)) dtype = default_dtype();
  return {cast(a, dtype), cast(b, dtype)};
}

/// The op that computes `op` for operands of this dtype: of bools a sum is "or", a product "and".
static BinaryOp kernel_of(BinaryOp op, DType operands) {
  if (operands != kBool) return op;
  switch (op) {
    case BinaryOp::kAdd:
    case BinaryOp::kMaximum: return BinaryOp::kLogicalOr;
    case BinaryOp::kMul:
    case BinaryOp::kMinimum: return BinaryOp::kLogicalAnd;
    default: return op;
  }
}

Tensor result_for(const char* name, const Tensor& a, const Tensor& b, DType dtype) {
  const bool same = a.shape() == b.shape();
  const Shape shape = same ? a.shape() : broadcast_shapes(name, a.shape(), b.shape());
  const Device device = a.device().is_cuda() ? a.device() : b.device();
  const bool b_decides = b.shape() == shape && has_overlap(a);  // a is expanded
  const Tensor& model = a.shape() == shape && !b_decides ? a : b;
  return model.shape() == shape && !model.is_contiguous()
             ? empty_like(model, dtype)
             : empty_strided(shape, contiguous_strides(shape), dtype, device);
}

Tensor run(const char* name, BinaryOp op, const Tensor& a, const Tensor& b, DType dtype) {
  Tensor out = result_for(name, a, b, dtype);
  LATHE_DISPATCH(out.device(), binary(kernel_of(op, a.dtype()), out, a, b));
  return out;
}

}  // namespace binary

using binary::prepare;
using binary::run;

namespace {

using BinaryFunction = Tensor (*)(const Tensor&, const Tensor&);

Saved saved_if(bool wanted, const Tensor& t) { return Saved(wanted ? t : Tensor()); }

/// op(t, number). A half tensor is computed in float, so that the number is not first rounded to
/// the half type.
template <class Op>
Tensor with_number(Op op, const Tensor& t, Scalar number) {
  if (!is_half(t.dtype())) return op(t, scalar_like(number, t));
  const Tensor wide = cast(t, kF32);
  return cast(op(wide, scalar_like(number, wide)), t.dtype());
}

/// add or sub with alpha * b in place of b. Half types are rounded once, at the end.
Tensor scaled(const char* name, BinaryFunction op, const Tensor& a, const Tensor& b, Scalar alpha) {
  check_devices(name, a, b);
  const DType dtype = result_dtype(a, b), wide = compute_dtype(dtype);
  LATHE_CHECK(DTypeError, category_of(alpha.dtype()) <= category_of(dtype), name, ": alpha ", alpha,
              " does not fit ", dtype, " (a: ", a, ", b: ", b, ")");
  LATHE_CHECK(DTypeError, dtype != kBool, name, ": not defined for bool (a: ", a, ", b: ", b, ")");
  check_holds(name, dtype, alpha);
  return cast(op(cast(a, wide), mul(cast(b, wide), alpha)), dtype);
}

/// Refuses integer divisors that are 0. `what` is the beginning of the message.
void check_divisor(const char* what, const Tensor& b) {
  if (is_floating(b.dtype())) return;
  if (b.device().is_cuda()) {  // without waiting: check_index notes each 0
    check_index(what, cast(eq(b, 0), kI64), -1);
    return;
  }
  const Tensor zero = eq(b, 0);
  LATHE_CHECK(ValueError, !any(zero).item<bool>(), what, " at element ",
              argmax(zero).item<int64_t>(), " of b (b: ", b, ")");
}

Tensor rounded_quotient(const Tensor& a_in, const Tensor& b_in, RoundingMode mode) {
  const profile::OpRange range("div", {a_in, b_in});
  profile::note_arguments(mode);
  const auto [a, b] = prepare("div", a_in, b_in);
  LATHE_CHECK(DTypeError, a.dtype() != kBool,
              "div: a rounded quotient is not defined for bool (a: ", a_in, ", b: ", b_in, ")");
  check_divisor("div: integer division by 0", b.detach());
  const BinaryOp op = mode == RoundingMode::kFloor ? BinaryOp::kDivFloor : BinaryOp::kDivTrunc;
  Tensor y = run("div", op, a, b, a.dtype());
  record("div", y, {a, b},
         [as = a.shape(), bs = b.shape()](const Tensor& dy, const autograd::Needs& need) {
           const auto nothing = [&](const Shape& shape) {
             return zeros(shape, {.dtype = dy.dtype(), .device = dy.device()});
           };
           return Tensors{need[0] ? nothing(as) : Tensor(), need[1] ? nothing(bs) : Tensor()};
         });
  return y;
}

/// fmod and remainder: a - b * (a / b, rounded by `mode`).
Tensor rest_of(const char* name, const char* by_zero, BinaryOp op, RoundingMode mode,
               const Tensor& a_in, const Tensor& b_in) {
  const profile::OpRange range(name, {a_in, b_in});
  const auto [a, b] = prepare(name, a_in, b_in);
  LATHE_CHECK(DTypeError, a.dtype() != kBool, name, ": not defined for bool (a: ", a_in,
              ", b: ", b_in, ")");
  check_divisor(by_zero, b.detach());
  Tensor y = run(name, op, a, b, a.dtype());
  record(name, y, {a, b},
         [a = saved_if(b.requires_grad(), a), b = saved_if(b.requires_grad(), b), as = a.shape(),
          mode](const Tensor& dy, const autograd::Needs& need) {
           Tensor da, db;
           if (need[0]) da = sum_to_shape(dy, as);
           if (need[1]) {
             const Tensor times = div(a.get(), b.get(), {mode});
             db = sum_to_shape(neg(mul(dy, times)), b.get().shape());
           }
           return Tensors{da, db};
         });
  return y;
}

/// maximum and minimum. The gradient goes where the value came from: half to each on a tie, all of
/// it to both beside a NaN. `loses` is the comparison that is true where p loses to q.
Tensor extremum(const char* name, BinaryOp op, BinaryFunction loses, const Tensor& a_in,
                const Tensor& b_in) {
  const profile::OpRange range(name, {a_in, b_in});
  const auto [a, b] = prepare(name, a_in, b_in);
  Tensor y = run(name, op, a, b, a.dtype());
  record(name, y, {a, b},
         [a = Saved(a), b = Saved(b), loses](const Tensor& dy, const autograd::Needs& need) {
           const auto share = [&](const Tensor& p, const Tensor& q) {
             const Tensor shared = where(eq(p, q), mul(dy, 0.5), dy);
             return sum_to_shape(where(loses(p, q), 0, shared), p.shape());
           };
           Tensor da, db;
           if (need[0]) da = share(a.get(), b.get());
           if (need[1]) db = share(b.get(), a.get());
           return Tensors{da, db};
         });
  return y;
}

}  // namespace

Tensor add(const Tensor& a_in, const Tensor& b_in) {
  const profile::OpRange range("add", {a_in, b_in});
  const auto [a, b] = prepare("add", a_in, b_in);
  Tensor y = run("add", BinaryOp::kAdd, a, b, a.dtype());
  record("add", y, {a, b},
         [as = a.shape(), bs = b.shape()](const Tensor& dy, const autograd::Needs& need) {
           Tensor da, db;
           if (need[0]) da = sum_to_shape(dy, as);
           if (need[1]) db = sum_to_shape(dy, bs);
           return Tensors{da, db};
         });
  return y;
}

Tensor sub(const Tensor& a_in, const Tensor& b_in) {
  const profile::OpRange range("sub", {a_in, b_in});
  LATHE_CHECK(DTypeError, a_in.dtype() != kBool || b_in.dtype() != kBool,
              "sub: not defined for bool; use logical_xor (a: ", a_in, ", b: ", b_in, ")");
  const auto [a, b] = prepare("sub", a_in, b_in);
  Tensor y = run("sub", BinaryOp::kSub, a, b, a.dtype());
  record("sub", y, {a, b},
         [as = a.shape(), bs = b.shape()](const Tensor& dy, const autograd::Needs& need) {
           Tensor da, db;
           if (need[0]) da = sum_to_shape(dy, as);
           if (need[1]) db = sum_to_shape(neg(dy), bs);
           return Tensors{da, db};
         });
  return y;
}

Tensor mul(const Tensor& a_in, const Tensor& b_in) {
  const profile::OpRange range("mul", {a_in, b_in});
  const auto [a, b] = prepare("mul", a_in, b_in);
  Tensor y = run("mul", BinaryOp::kMul, a, b, a.dtype());
  record("mul", y, {a, b},
         [a = saved_if(b.requires_grad(), a), b = saved_if(a.requires_grad(), b), as = a.shape(),
          bs = b.shape()](const Tensor& dy, const autograd::Needs& need) {
           Tensor da, db;
           if (need[0]) da = sum_to_shape(mul(dy, b.get()), as);
           if (need[1]) db = sum_to_shape(mul(dy, a.get()), bs);
           return Tensors{da, db};
         });
  return y;
}

Tensor div(const Tensor& a_in, const Tensor& b_in) {
  const profile::OpRange range("div", {a_in, b_in});
  const auto [a, b] = prepare("div", a_in, b_in, /*floating=*/true);
  Tensor y = run("div", BinaryOp::kDiv, a, b, a.dtype());
  record("div", y, {a, b},
         [a = saved_if(b.requires_grad(), a), b = Saved(b), as = a.shape()](
             const Tensor& dy, const autograd::Needs& need) {
           Tensor da, db;
           if (need[0]) da = sum_to_shape(div(dy, b.get()), as);
           if (need[1]) {  // d(a/b)/db = -a/b^2
             const Tensor bottom = b.get();
             db = sum_to_shape(neg(mul(dy, div(div(a.get(), bottom), bottom))), bottom.shape());
           }
           return Tensors{da, db};
         });
  return y;
}

Tensor div(const Tensor& a, const Tensor& b, DivOptions options) {
  if (options.rounding_mode == RoundingMode::kNone) return div(a, b);
  return rounded_quotient(a, b, options.rounding_mode);
}
Tensor div(const Tensor& a, Scalar b, DivOptions options) {
  if (options.rounding_mode == RoundingMode::kNone) return div(a, b);
  const auto by = [options](const Tensor& t, const Tensor& n) { return div(t, n, options); };
  return with_number(by, a, b);
}
Tensor div(Scalar a, const Tensor& b, DivOptions options) {
  if (options.rounding_mode == RoundingMode::kNone) return div(a, b);
  const auto of = [options](const Tensor& t, const Tensor& n) { return div(n, t, options); };
  return with_number(of, b, a);
}

Tensor add(const Tensor& a, const Tensor& b, Scalar alpha) {
  return scaled("add", add, a, b, alpha);
}
Tensor sub(const Tensor& a, const Tensor& b, Scalar alpha) {
  return scaled("sub", sub, a, b, alpha);
}

Tensor maximum(const Tensor& a, const Tensor& b) {
  return extremum("maximum", BinaryOp::kMaximum, lt, a, b);
}
Tensor minimum(const Tensor& a, const Tensor& b) {
  return extremum("minimum", BinaryOp::kMinimum, gt, a, b);
}

Tensor pow(const Tensor& a_in, const Tensor& b_in) {
  const profile::OpRange range("pow", {a_in, b_in});
  const auto [ac, bc] = amp::cast(amp::kFloat, a_in, b_in);
  const auto [a, b] = prepare("pow", ac, bc);
  Tensor y = run("pow", BinaryOp::kPow, a, b, a.dtype());
  record("pow", y, {a, b},
         [a = Saved(a), b = Saved(b)](const Tensor& dy, const autograd::Needs& need) {
           const Tensor &base = a.get(), &exponent = b.get();
           Tensor da, db;
           if (need[0]) {
             // b a^(b-1), but 0 where b = 0 (also at a = 0): there the exponent is set to 1 and the
             // factor b stays 0.
             const Tensor is_zero = cast(eq(exponent, 0), dy.dtype());
             const Tensor slope = mul(exponent, pow(base, add(sub(exponent, 1), is_zero)));
             da = sum_to_shape(mul(dy, slope), base.shape());
           }
           if (need[1]) {
             // a^b log(a). Where a = 0 and b >= 0 the limit is 0: there log is taken of 1.
             const Tensor flat = logical_and(eq(base, 0), ge(exponent, 0));
             const Tensor slope = mul(pow(base, exponent), log(where(flat, 1, base)));
             db = sum_to_shape(mul(dy, slope), exponent.shape());
           }
           return Tensors{da, db};
         });
  return y;
}

Tensor hypot(const Tensor& a_in, const Tensor& b_in) {
  const profile::OpRange range("hypot", {a_in, b_in});
  const auto [a, b] = prepare("hypot", a_in, b_in);
  Tensor y = run("hypot", BinaryOp::kHypot, a, b, a.dtype());
  record("hypot", y, {a, b},
         [a = Saved(a), b = Saved(b), y = SavedOutput(y)](const Tensor& dy,
                                                          const autograd::Needs& need) {
           // Divided first: at most 1, where a * dy may overflow.
           const auto slope = [&](const Tensor& x) {
             return sum_to_shape(mul(dy, div(x, y.get())), x.shape());
           };
           Tensor da, db;
           if (need[0]) da = slope(a.get());
           if (need[1]) db = slope(b.get());
           return Tensors{da, db};
         });
  return y;
}

Tensor fmod(const Tensor& a, const Tensor& b) {
  return rest_of("fmod", "fmod: integer division by 0", BinaryOp::kFmod, RoundingMode::kTrunc, a,
                 b);
}
Tensor remainder(const Tensor& a, const Tensor& b) {
  return rest_of("remainder", "remainder: integer division by 0", BinaryOp::kRemainder,
                 RoundingMode::kFloor, a, b);
}

Tensor atan2(const Tensor& a_in, const Tensor& b_in) {
  const profile::OpRange range("atan2", {a_in, b_in});
  const auto [a, b] = prepare("atan2", a_in, b_in, /*floating=*/true);
  Tensor y = run("atan2", BinaryOp::kAtan2, a, b, a.dtype());
  record("atan2", y, {a, b},
         [a = Saved(a), b = Saved(b)](const Tensor& dy, const autograd::Needs& need) {
           // dy / h · a / h with h² = a² + b², because the squares may overflow.
           const Tensor h = hypot(a.get(), b.get()), slope = div(dy, h);
           Tensor da, db;
           if (need[0]) da = sum_to_shape(mul(slope, div(b.get(), h)), a.get().shape());
           if (need[1]) db = sum_to_shape(neg(mul(slope, div(a.get(), h))), b.get().shape());
           return Tensors{da, db};
         });
  return y;
}

Tensor lerp(const Tensor& a_in, const Tensor& b_in, const Tensor& weight) {
  const profile::OpRange range("lerp", {a_in, b_in, weight});
  const auto [a, b] = prepare("lerp", a_in, b_in);
  LATHE_CHECK(DTypeError, is_floating(a.dtype()) && is_floating(weight.dtype()),
              "lerp: expected floating dtypes (a: ", a_in, ", b: ", b_in, ", weight: ", weight,
              ")");
  const DType dtype = result_dtype(a, weight), wide = compute_dtype(dtype);
  const Tensor from = cast(a, wide), to = cast(b, wide), w = cast(weight, wide);
  const Tensor way = sub(to, from);
  const Tensor near_b = ge(w.detach(), 0.5);
  // Each branch sees a weight of 0 where the other one applies, so that it adds nothing to it.
  const Tensor forth = add(from, mul(way, where(near_b, 0, w)));
  const Tensor back = sub(to, mul(way, where(near_b, sub(1, w), 0)));
  return cast(where(near_b, back, forth), dtype);
}
Tensor lerp(const Tensor& a_in, const Tensor& b_in, double weight) {
  const profile::OpRange range("lerp", {a_in, b_in});
  const auto [a, b] = prepare("lerp", a_in, b_in);
  LATHE_CHECK(DTypeError, is_floating(a.dtype()), "lerp: expected floating dtypes (a: ", a_in,
              ", b: ", b_in, ")");
  const DType wide = compute_dtype(a.dtype());
  const Tensor from = cast(a, wide), to = cast(b, wide), way = sub(to, from);
  const Tensor y = weight < 0.5 ? add(from, mul(way, weight)) : sub(to, mul(way, 1 - weight));
  return cast(y, a.dtype());
}

// clang-format off
Tensor add(const Tensor& a, Scalar b) { return with_number<BinaryFunction>(add, a, b); }
Tensor sub(const Tensor& a, Scalar b) { return with_number<BinaryFunction>(sub, a, b); }
Tensor sub(Scalar a, const Tensor& b) { return with_number([](const Tensor& t, const Tensor& n) { return sub(n, t); }, b, a); }
Tensor mul(const Tensor& a, Scalar b) { return with_number<BinaryFunction>(mul, a, b); }
Tensor div(const Tensor& a, Scalar b) { return with_number<BinaryFunction>(div, floating(a), b); }
Tensor div(Scalar a, const Tensor& b) { return with_number([](const Tensor& t, const Tensor& n) { return div(n, t); }, floating(b), a); }
Tensor fmod(const Tensor& a, Scalar b) { return with_number<BinaryFunction>(fmod, a, b); }
Tensor remainder(const Tensor& a, Scalar b) { return with_number<BinaryFunction>(remainder, a, b); }
Tensor remainder(Scalar a, const Tensor& b) { return with_number([](const Tensor& t, const Tensor& n) { return remainder(n, t); }, b, a); }
Tensor pow(Scalar a, const Tensor& b) { return with_number([](const Tensor& t, const Tensor& n) { return pow(n, t); }, b, a); }

// clang-format on

Tensor pow(const Tensor& a, Scalar b) {
  if (!is_floating(a.dtype()) && !b.is_floating()) {
    LATHE_CHECK(ValueError, b.to<int64_t>() >= 0, "pow: the power ", b,
                " of integers is no integer; cast them to a floating dtype (a: ", a, ")");
    check_holds("pow", a.dtype(), b);
  }
  return with_number<BinaryFunction>(pow, a, b);
}

namespace autograd {

Tensor accumulate(Tensor sum, const Tensor& gradient) {
  if (!is_sole_owner(sum) || grad_enabled()) return add(sum, gradient);
  accumulate_(sum, gradient);
  return sum;
}

void accumulate_(const Tensor& sum, const Tensor& gradient) {
  LATHE_DISPATCH(sum.device(), binary(BinaryOp::kAdd, sum, sum, gradient));
  sum.bump_version();
}

}  // namespace autograd

}  // namespace lathe
