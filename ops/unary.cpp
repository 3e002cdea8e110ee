// Elementwise ops of one operand: one line per op, with its gradient. Kernels:
// elementwise_kernels/unary_cpu.cpp. Contracts: unary.h.
#include "lathe/ops/unary.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "lathe/autograd/record.h"
#include "lathe/core/copy.h"
#include "lathe/core/dispatch.h"
#include "lathe/core/hooks/range.h"
#include "lathe/core/visit.h"
#include "lathe/ops/autocast.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/binary_acts.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/promote.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/where.h"

namespace lathe {

using autograd::Needs;
using autograd::record;
using autograd::Saved;
using autograd::SavedOutput;

namespace {

Tensor run(UnaryOp op, const Tensor& x, UnaryParams params = {}) {
  Tensor y = empty_like(x);
  LATHE_DISPATCH(x.device(), unary(op, y, x, params));
  return y;
}

/// x in a floating dtype; half types as f32 under autocast.
Tensor ranged(const Tensor& x) { return floating(amp::cast(amp::kFloat, x)); }

/// An op whose gradient is written with its input: dx = gradient(dy, x). `arguments` are those of
/// the op beside x.
template <class G, class... A>
Tensor from_input(const char* name, UnaryOp op, const Tensor& x, G gradient,
                  UnaryParams params = {}, const A&... arguments) {
  const profile::OpRange range(name, {x});
  if constexpr (sizeof...(A) > 0) profile::note_arguments(arguments...);
  Tensor y = run(op, x, params);
  record(name, y, {x}, [x = Saved(x), gradient](const Tensor& dy, const Needs&) {
    return Tensors{gradient(dy, x.get())};
  });
  return y;
}

/// An op whose gradient is written with its output: dx = gradient(dy, y).
template <class G>
Tensor from_output(const char* name, UnaryOp op, const Tensor& x, G gradient,
                   UnaryParams params = {}) {
  const profile::OpRange range(name, {x});
  Tensor y = run(op, x, params);
  record(name, y, {x}, [y = SavedOutput(y), gradient](const Tensor& dy, const Needs&) {
    return Tensors{gradient(dy, y.get())};
  });
  return y;
}

/// An op that is constant between its jumps: its gradient is zero.
Tensor step_function(const char* name, UnaryOp op, const Tensor& x) {
  const profile::OpRange range(name, {x});
  Tensor y = run(op, x);
  record(name, y, {x}, [](const Tensor& dy, const Needs&) { return Tensors{zeros_like(dy)}; });
  return y;
}

/// floor, ceil, round, trunc. Integers are returned as they are.
Tensor rounding(const char* name, UnaryOp op, const Tensor& x) {
  if (is_floating(x.dtype())) return step_function(name, op, x);
  const profile::OpRange range(name, {x});
  return clone(x);
}

/// 1 where the condition holds, else 0, as a factor for dy.
Tensor mask(const Tensor& condition, const Tensor& dy) { return cast(condition, dy.dtype()); }

/// sqrt(v² + 1). The square of 300 is more than f16 holds; this is not.
Tensor root_of_square_plus_one(const Tensor& v) { return hypot(v, scalar_like(1, v)); }

Tensor test(const char* name, UnaryOp op, const Tensor& x, bool of_integers) {
  const profile::OpRange range(name, {x});
  Tensor y = empty_like(x, kBool);
  if (is_floating(x.dtype())) {
    LATHE_DISPATCH(x.device(), unary(op, y, x, UnaryParams{}));
  } else {
    fill_values(y, of_integers);
  }
  profile::note_output(y);
  return y;
}

// clang-format off
using T = const Tensor&;
}  // namespace

Tensor abs(T x)        { return from_input("abs", UnaryOp::kAbs, x, [](T dy, T v) { return mul(dy, sign(v)); }); }
Tensor square(T x)     { return from_input("square", UnaryOp::kSquare, x, [](T dy, T v) { return mul(mul(dy, v), 2); }); }
Tensor sign(T x)       { return step_function("sign", UnaryOp::kSign, x); }
Tensor floor(T x)      { return rounding("floor", UnaryOp::kFloor, x); }
Tensor ceil(T x)       { return rounding("ceil", UnaryOp::kCeil, x); }
Tensor round(T x)      { return rounding("round", UnaryOp::kRound, x); }
Tensor trunc(T x)      { return rounding("trunc", UnaryOp::kTrunc, x); }
Tensor frac(T x)       {
  const profile::OpRange range("frac", {x});
  LATHE_CHECK(DTypeError, x.dtype() != kBool, "frac: not defined for bool (x: ", x, ")");
  return sub(x, trunc(x)); }
Tensor exp(T x)        { return from_output("exp", UnaryOp::kExp, ranged(x), [](T dy, T y) { return mul(dy, y); }); }
Tensor expm1(T x)      { return from_output("expm1", UnaryOp::kExpm1, ranged(x), [](T dy, T y) { return mul(dy, add(y, 1)); }); }
Tensor log(T x)        { return from_input("log", UnaryOp::kLog, ranged(x), [](T dy, T v) { return div(dy, v); }); }
Tensor log1p(T x)      { return from_input("log1p", UnaryOp::kLog1p, ranged(x), [](T dy, T v) { return div(dy, add(v, 1)); }); }
Tensor log2(T x)       { return from_input("log2", UnaryOp::kLog2, ranged(x), [](T dy, T v) { return div(dy, mul(v, std::numbers::ln2)); }); }
Tensor log10(T x)      { return from_input("log10", UnaryOp::kLog10, ranged(x), [](T dy, T v) { return div(dy, mul(v, std::numbers::ln10)); }); }
Tensor exp2(T x)       { return from_output("exp2", UnaryOp::kExp2, ranged(x), [](T dy, T y) { return mul(dy, mul(y, std::numbers::ln2)); }); }
Tensor rsqrt(T x)      { return from_output("rsqrt", UnaryOp::kRsqrt, ranged(x), [](T dy, T y) { return mul(mul(dy, mul(square(y), y)), -0.5); }); }
Tensor reciprocal(T x) { return from_output("reciprocal", UnaryOp::kReciprocal, ranged(x), [](T dy, T y) { return neg(mul(dy, square(y))); }); }
Tensor sin(T x)        { return from_input("sin", UnaryOp::kSin, ranged(x), [](T dy, T v) { return mul(dy, cos(v)); }); }
Tensor cos(T x)        { return from_input("cos", UnaryOp::kCos, ranged(x), [](T dy, T v) { return neg(mul(dy, sin(v))); }); }
Tensor tan(T x)        { return from_output("tan", UnaryOp::kTan, ranged(x), [](T dy, T y) { return mul(dy, add(square(y), 1)); }); }
Tensor asin(T x)       { return from_input("asin", UnaryOp::kAsin, ranged(x), [](T dy, T v) { return mul(dy, rsqrt(sub(1, square(v)))); }); }
Tensor acos(T x)       { return from_input("acos", UnaryOp::kAcos, ranged(x), [](T dy, T v) { return neg(mul(dy, rsqrt(sub(1, square(v))))); }); }
Tensor atan(T x)       { return from_input("atan", UnaryOp::kAtan, floating(x), [](T dy, T v) {
                           const Tensor h = root_of_square_plus_one(v);  // h² = v² + 1
                           return div(div(dy, h), h); }); }
Tensor sinh(T x)       { return from_input("sinh", UnaryOp::kSinh, ranged(x), [](T dy, T v) { return mul(dy, cosh(v)); }); }
Tensor cosh(T x)       { return from_input("cosh", UnaryOp::kCosh, ranged(x), [](T dy, T v) { return mul(dy, sinh(v)); }); }
Tensor asinh(T x)      { return from_input("asinh", UnaryOp::kAsinh, floating(x), [](T dy, T v) { return div(dy, root_of_square_plus_one(v)); }); }
Tensor acosh(T x)      { return from_input("acosh", UnaryOp::kAcosh, floating(x), [](T dy, T v) { return div(dy, mul(sqrt(sub(v, 1)), sqrt(add(v, 1)))); }); }
Tensor atanh(T x)      { return from_input("atanh", UnaryOp::kAtanh, floating(x), [](T dy, T v) { return div(dy, sub(1, square(v))); }); }
Tensor sqrt(T x)       { return from_output("sqrt", UnaryOp::kSqrt, floating(x), [](T dy, T y) { return div(dy, mul(y, 2)); }); }
Tensor tanh(T x)       { return from_output("tanh", UnaryOp::kTanh, floating(x), [](T dy, T y) { return tanh_grad(dy, y); }); }
Tensor sigmoid(T x)    { return from_output("sigmoid", UnaryOp::kSigmoid, floating(x), [](T dy, T y) { return sigmoid_grad(dy, y); }); }
Tensor erf(T x)        { return from_input("erf", UnaryOp::kErf, floating(x), [](T dy, T v) {
                           return mul(mul(dy, exp(neg(square(v)))), 2 * std::numbers::inv_sqrtpi); }); }
Tensor relu(T x)       { return from_output("relu", UnaryOp::kRelu, x, [](T dy, T y) { return relu_grad(dy, y); }); }
Tensor silu(T x)       { return from_input("silu", UnaryOp::kSilu, floating(x), [](T dy, T v) {
                           const Tensor s = sigmoid(v);  // s (1 + v (1 - s))
                           return mul(dy, mul(s, add(mul(v, sub(1, s)), 1))); }); }
Tensor isnan(T x)      { return test("isnan", UnaryOp::kIsNan, x, false); }
Tensor isinf(T x)      { return test("isinf", UnaryOp::kIsInf, x, false); }
Tensor isfinite(T x)   { return test("isfinite", UnaryOp::kIsFinite, x, true); }
// clang-format on

Tensor neg(const Tensor& x) {
  const profile::OpRange range("neg", {x});
  Tensor y = run(UnaryOp::kNeg, x);
  record("neg", y, {x}, [](const Tensor& dy, const Needs&) { return Tensors{neg(dy)}; });
  return y;
}

Tensor leaky_relu(const Tensor& x, double slope) {
  const auto gradient = [slope](const Tensor& dy, const Tensor& v) {
    const Tensor positive = mask(gt(v, 0), dy);
    return mul(dy, add(mul(positive, 1 - slope), slope));
  };
  return from_input("leaky_relu", UnaryOp::kLeakyRelu, floating(x), gradient, {.a = slope}, slope);
}

Tensor elu(const Tensor& x, double alpha) {
  const auto gradient = [alpha](const Tensor& dy, const Tensor& v) {
    // min(v, 0) keeps exp finite where it is not chosen.
    return where(le(v, 0), mul(dy, mul(exp(clamp(v, {.high = 0})), alpha)), dy);
  };
  return from_input("elu", UnaryOp::kElu, floating(x), gradient, {.a = alpha}, alpha);
}

Tensor gelu(const Tensor& x, const GeluOptions& options) {
  if (options.tanh_approximation) {
    return from_input("gelu", UnaryOp::kGeluTanh, floating(x), gelu_tanh_grad, {}, options);
  }
  return from_input("gelu", UnaryOp::kGelu, floating(x), gelu_grad, {}, options);
}

Tensor softplus(const Tensor& x, const SoftplusOptions& options) {
  LATHE_CHECK(ValueError, options.beta > 0, "softplus: beta must be positive, got ", options.beta);
  const auto gradient = [options](const Tensor& dy, const Tensor& v) {
    const Tensor linear = mask(gt(mul(v, options.beta), options.threshold), dy);
    const Tensor s = sigmoid(mul(v, options.beta));
    return mul(dy, add(linear, mul(sub(1, linear), s)));
  };
  return from_input("softplus", UnaryOp::kSoftplus, floating(x), gradient,
                    {.a = options.beta, .b = options.threshold}, options);
}

/// An integer interval outside the range of x's dtype holds none of its numbers.
static void check_interval(const Tensor& x, int64_t low, int64_t high) {
  visit_integer(x.dtype(), "clamp", [&]<class T>(TypeTag<T>) {
    using Limits = std::numeric_limits<T>;
    LATHE_CHECK(ValueError, low <= Limits::max() && high >= Limits::lowest(), "clamp: the ends ",
                low, " and ", high, " leave no number of ", x.dtype(), " (x: ", x, ")");
  });
}

Tensor clamp(const Tensor& x_in, const ClampOptions& options) {
  LATHE_CHECK(ValueError, options.low || options.high, "clamp: neither end is given (x: ", x_in,
              ")");
  const bool floating_ends =
      (options.low && options.low->is_floating()) || (options.high && options.high->is_floating());
  const Tensor x = floating_ends ? floating(x_in) : x_in;
  // An absent end becomes the last number of x's kind. Integers stay integers, because a double
  // does not hold all of them.
  constexpr double kOpen = std::numeric_limits<double>::infinity();
  const bool real = is_floating(x.dtype());
  const Scalar low = options.low.value_or(real ? Scalar(-kOpen) : Scalar(INT64_MIN));
  const Scalar high = options.high.value_or(real ? Scalar(kOpen) : Scalar(INT64_MAX));
  if (is_integer(x.dtype())) check_interval(x, low.to<int64_t>(), high.to<int64_t>());
  const auto gradient = [low, high](const Tensor& dy, const Tensor& v) {
    return where(logical_and(ge(v, low), le(v, high)), dy, 0);
  };
  return from_input("clamp", UnaryOp::kClamp, x, gradient, {.a = low, .b = high}, low, high);
}

Tensor clamp(const Tensor& x_in, const Tensor& low_in, const Tensor& high_in) {
  const profile::OpRange range("clamp", {x_in, low_in, high_in});
  LATHE_CHECK(ValueError, low_in.defined() || high_in.defined(),
              "clamp: neither end is given (x: ", x_in, ")");
  const auto bounded = [&](BinaryOp op, const Tensor& values, const Tensor& end) {
    const auto [a, b] = binary::prepare("clamp", values, end.detach());
    LATHE_CHECK(DTypeError, a.dtype() != kBool, "clamp: not defined for bool (x: ", x_in, ")");
    return binary::run("clamp", op, a, b, a.dtype());
  };
  Tensor y = x_in.detach();
  if (low_in.defined()) y = bounded(BinaryOp::kMaximum, y, low_in);
  if (high_in.defined()) y = bounded(BinaryOp::kMinimum, y, high_in);
  const auto alike = [&](const Tensor& t) {
    return t.defined() ? to_device(cast(t, y.dtype()), y.device()) : t;
  };
  const Tensor x = alike(x_in), low = alike(low_in), high = alike(high_in);
  record("clamp", y, {x, low, high},
         [x = Saved(x), low = Saved(low), high = Saved(high)](const Tensor& dy, const Needs& need) {
           const Tensor &v = x.get(), &l = low.get(), &h = high.get();
           const auto where_true = [&dy](const Tensor& condition, const Tensor& of) {
             return sum_to_shape(where(condition, dy, 0), of.shape());
           };
           Tensor dx, dl, dh;
           if (need[0]) {
             const Tensor below = h.defined() ? le(v, h) : ge(v, l);
             dx = where_true(l.defined() && h.defined() ? logical_and(ge(v, l), below) : below, v);
           }
           if (need[1])
             dl = where_true(h.defined() ? logical_and(lt(v, l), lt(l, h)) : lt(v, l), l);
           if (need[2]) dh = where_true(l.defined() ? logical_or(gt(v, h), lt(h, l)) : gt(v, h), h);
           return Tensors{dx, dl, dh};
         });
  return y;
}

Tensor clamp(const Tensor& x, Scalar low, Scalar high) {
  return clamp(x, {.low = low, .high = high});
}

}  // namespace lathe
