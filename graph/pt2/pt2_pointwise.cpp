// Operators of single elements, and of symbolic numbers.
// Contract: pt2_call.h.
#include <cmath>
#include <limits>

#include "lathe/core/checked_size.h"
#include "lathe/graph/pt2/pt2_call.h"
#include "lathe/ops/activations.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/random.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/where.h"

namespace lathe::jit::pt2 {

namespace {

/// y = op(self), and its in-place form.
template <Tensor (*op)(const Tensor&)>
void unary(Call& c) {
  c.result(op(c.tensor("self")));
}
template <Tensor (*op)(const Tensor&)>
void unary_(Call& c) {
  c.write(op(c.self()));
}

/// y = op(self, other), where `other` may be a number.
template <Tensor (*of_tensors)(const Tensor&, const Tensor&),
          Tensor (*of_number)(const Tensor&, Scalar)>
Tensor binary_of(Call& c) {
  const Tensor self = c.self();
  if (c.is_tensor("other")) return of_tensors(self, c.tensor("other"));
  return of_number(self, c.number("other"));
}
template <Tensor (*of_tensors)(const Tensor&, const Tensor&),
          Tensor (*of_number)(const Tensor&, Scalar)>
void binary(Call& c) {
  c.result(binary_of<of_tensors, of_number>(c));
}
template <Tensor (*of_tensors)(const Tensor&, const Tensor&),
          Tensor (*of_number)(const Tensor&, Scalar)>
void binary_(Call& c) {
  c.write(binary_of<of_tensors, of_number>(c));
}

Scalar times(Scalar a, Scalar b) {
  if (a.is_floating() || b.is_floating()) return a.to<double>() * b.to<double>();
  int64_t product = 0;
  LATHE_CHECK(ValueError, !__builtin_mul_overflow(a.to<int64_t>(), b.to<int64_t>(), &product),
              a.to<int64_t>(), " * ", b.to<int64_t>(), " is too large");
  return product;
}

/// self + alpha * other.
Tensor added(Call& c) {
  const Scalar alpha = c.number("alpha", 1);
  const Tensor self = c.tensor("self");
  if (!c.is_tensor("other")) return add(self, times(c.number("other"), alpha));
  if (alpha.to<double>() == 1) return add(self, c.tensor("other"));
  return add(self, c.tensor("other"), alpha);
}
/// self - alpha * other.
Tensor subtracted(Call& c) {
  const Scalar alpha = c.number("alpha", 1);
  const Tensor self = c.tensor("self");
  if (!c.is_tensor("other")) return sub(self, times(c.number("other"), alpha));
  if (alpha.to<double>() == 1) return sub(self, c.tensor("other"));
  return sub(self, c.tensor("other"), alpha);
}

Tensor divided(Call& c) {
  const std::string word = c.word("rounding_mode", "");
  DivOptions options;
  if (word == "floor") options.rounding_mode = RoundingMode::kFloor;
  if (word == "trunc") options.rounding_mode = RoundingMode::kTrunc;
  const Tensor self = c.self();
  if (c.is_tensor("other")) return div(self, c.tensor("other"), options);
  return div(self, c.number("other"), options);
}

/// Bits are not computed with: masks are of bool.
Tensor truth(Call& c, const char* name) {
  const Tensor t = c.tensor(name);
  if (t.dtype() != kBool) c.refuse(concat("integers have no operations on their bits (", t, ")"));
  return t;
}
template <Tensor (*op)(const Tensor&, const Tensor&)>
void bitwise(Call& c) {
  c.result(op(truth(c, "self"), truth(c, "other")));
}

Tensor clamped(Call& c) {
  ClampOptions options;
  if (c.has("min")) options.low = c.number("min");
  if (c.has("max")) options.high = c.number("max");
  return clamp(c.self(), options);
}
Tensor hardtanh_of(Call& c) {
  return hardtanh(c.self(), c.real("min_val", -1.0), c.real("max_val", 1.0));
}
Tensor leaky_relu_of(Call& c) { return leaky_relu(c.self(), c.real("negative_slope", 0.01)); }
Tensor elu_of(Call& c) {
  if (c.real("scale", 1.0) != 1 || c.real("input_scale", 1.0) != 1) c.refuse("has scales");
  return elu(c.self(), c.real("alpha", 1.0));
}
Tensor gelu_of(Call& c) {
  return gelu(c.self(), {.tanh_approximation = c.word("approximate", "none") == "tanh"});
}
Tensor filled(Call& c) {
  const Tensor self = c.tensor("self");
  if (c.is_tensor("value")) return c.tensor("value");
  return full({}, c.number("value"), {.dtype = self.dtype(), .device = self.device()});
}
Tensor masked(Call& c) {
  const Tensor self = c.tensor("self"), mask = c.tensor("mask");
  if (c.is_tensor("value")) return masked_fill(self, mask, c.tensor("value"));
  return masked_fill(self, mask, c.number("value"));
}

void pow_of(Call& c) {
  if (!c.is_tensor("self")) return c.result(pow(c.number("self"), c.tensor("exponent")));
  if (c.is_tensor("exponent")) return c.result(pow(c.tensor("self"), c.tensor("exponent")));
  c.result(pow(c.tensor("self"), c.number("exponent")));
}

void where_of(Call& c) {
  const Tensor condition = c.tensor("condition");
  if (!c.is_tensor("self")) return c.result(where(condition, c.number("self"), c.tensor("other")));
  if (!c.is_tensor("other")) return c.result(where(condition, c.tensor("self"), c.number("other")));
  c.result(where(condition, c.tensor("self"), c.tensor("other")));
}

/// self + value * tensor1 * tensor2, or the quotient of the two.
template <Tensor (*op)(const Tensor&, const Tensor&)>
void add_combined(Call& c) {
  const Scalar value = c.number("value", 1);
  const Tensor both = op(c.tensor("tensor1"), c.tensor("tensor2"));
  c.result(value.to<double>() == 1 ? add(c.tensor("self"), both)
                                   : add(c.tensor("self"), both, value));
}

/// Stochastic depth in evaluation multiplies by 1, not by a mask of ones: a tensor with an element
/// for each image could not be a constant of a graph (jit::trace).
void mul_of(Call& c) {
  if (c.is_masked() && !c.trains()) return c.result(mul(c.tensor("self"), 1));
  binary<mul, mul>(c);
}

/// 1 with probability p, else 0. Stochastic depth in evaluation keeps everything.
void bernoulli_of(Call& c) {
  const Tensor self = c.tensor("self");
  if (c.is_stochastic_depth() && !c.trains()) return c.write(ones_like(self));
  c.write(bernoulli(full_like(self, c.real("p", 0.5))));
}

// --- symbolic numbers ----------------------------------------------------------------------------

enum class Sum : uint8_t { kAdd, kSub, kMul, kFloorDiv, kMod, kMax, kMin };

/// a op b of integers, of sizes for instance.
template <Sum op>
void integers(Call& c) {
  const Scalar left = c.number("a"), right = c.number("b");
  if (left.is_floating() || right.is_floating()) {
    const double a = left.to<double>(), b = right.to<double>();
    if (op == Sum::kAdd) return c.result(a + b);
    if (op == Sum::kSub) return c.result(a - b);
    if (op == Sum::kMul) return c.result(a * b);
    c.refuse("is of integers only");
  }
  const int64_t a = left.to<int64_t>(), b = right.to<int64_t>();
  int64_t y = 0;
  bool wrong = false;
  if (op == Sum::kAdd) wrong = __builtin_add_overflow(a, b, &y);
  if (op == Sum::kSub) wrong = __builtin_sub_overflow(a, b, &y);
  if (op == Sum::kMul) wrong = __builtin_mul_overflow(a, b, &y);
  if (op == Sum::kMax) y = std::max(a, b);
  if (op == Sum::kMin) y = std::min(a, b);
  if (op == Sum::kFloorDiv || op == Sum::kMod) {
    wrong = b == 0 || (a == INT64_MIN && b == -1);
    if (!wrong) {
      const int64_t quotient = a / b - (a % b != 0 && (a % b < 0) != (b < 0) ? 1 : 0);
      y = op == Sum::kMod ? a - quotient * b : quotient;
    }
  }
  if (wrong) c.refuse(concat("has no result for ", a, " and ", b));
  c.result(y);
}

void quotient(Call& c) { c.result(c.real("a") / c.real("b")); }
void negated(Call& c) {
  const Scalar a = c.number("a");
  if (a.is_floating()) return c.result(-a.to<double>());
  if (a.to<int64_t>() == INT64_MIN) c.refuse("overflows");
  c.result(-a.to<int64_t>());
}

enum class Order : uint8_t { kEq, kNe, kLt, kLe, kGt, kGe };
template <Order op>
void compared(Call& c) {
  const double a = c.real("a"), b = c.real("b");
  if (op == Order::kEq) c.result(a == b);
  if (op == Order::kNe) c.result(a != b);
  if (op == Order::kLt) c.result(a < b);
  if (op == Order::kLe) c.result(a <= b);
  if (op == Order::kGt) c.result(a > b);
  if (op == Order::kGe) c.result(a >= b);
}

using enum Kind;

// clang-format off
const Target kPointwise[] = {
    {"aten.neg.default", unary<neg>}, {"aten.abs.default", unary<abs>}, {"aten.sign.default", unary<sign>}, {"aten.square.default", unary<square>},
    {"aten.floor.default", unary<floor>}, {"aten.ceil.default", unary<ceil>}, {"aten.round.default", unary<round>}, {"aten.trunc.default", unary<trunc>},
    {"aten.exp.default", unary<exp>}, {"aten.expm1.default", unary<expm1>}, {"aten.log.default", unary<log>}, {"aten.log1p.default", unary<log1p>}, {"aten.log2.default", unary<log2>},
    {"aten.sqrt.default", unary<sqrt>}, {"aten.rsqrt.default", unary<rsqrt>}, {"aten.reciprocal.default", unary<reciprocal>},
    {"aten.sin.default", unary<sin>}, {"aten.cos.default", unary<cos>}, {"aten.tan.default", unary<tan>}, {"aten.atan.default", unary<atan>},
    {"aten.erf.default", unary<erf>}, {"aten.tanh.default", unary<tanh>}, {"aten.sigmoid.default", unary<sigmoid>}, {"aten.log_sigmoid.default", unary<logsigmoid>},
    {"aten.relu.default", unary<relu>}, {"aten.relu6.default", unary<relu6>}, {"aten.silu.default", unary<silu>}, {"aten.mish.default", unary<mish>},
    {"aten.selu.default", unary<selu>}, {"aten.hardsigmoid.default", unary<hardsigmoid>}, {"aten.hardswish.default", unary<hardswish>},
    {"aten.isnan.default", unary<isnan>}, {"aten.isinf.default", unary<isinf>}, {"aten.logical_not.default", unary<logical_not>},
    {"aten.neg_.default", unary_<neg>, kWrite}, {"aten.exp_.default", unary_<exp>, kWrite}, {"aten.sqrt_.default", unary_<sqrt>, kWrite},
    {"aten.tanh_.default", unary_<tanh>, kWrite}, {"aten.sigmoid_.default", unary_<sigmoid>, kWrite}, {"aten.relu_.default", unary_<relu>, kWrite},
    {"aten.relu6_.default", unary_<relu6>, kWrite}, {"aten.silu_.default", unary_<silu>, kWrite}, {"aten.mish_.default", unary_<mish>, kWrite},
    {"aten.selu_.default", unary_<selu>, kWrite}, {"aten.hardsigmoid_.default", unary_<hardsigmoid>, kWrite}, {"aten.hardswish_.default", unary_<hardswish>, kWrite},

    {"aten.add.Tensor", [](Call& c) { c.result(added(c)); }}, {"aten.add.Scalar", [](Call& c) { c.result(added(c)); }},
    {"aten.sub.Tensor", [](Call& c) { c.result(subtracted(c)); }}, {"aten.sub.Scalar", [](Call& c) { c.result(subtracted(c)); }},
    {"aten.rsub.Scalar", [](Call& c) { c.result(sub(c.number("other"), mul(c.tensor("self"), c.number("alpha", 1)))); }},
    {"aten.mul.Tensor", mul_of}, {"aten.mul.Scalar", binary<mul, mul>},
    {"aten.div.Tensor", [](Call& c) { c.result(divided(c)); }}, {"aten.div.Scalar", [](Call& c) { c.result(divided(c)); }},
    {"aten.div.Tensor_mode", [](Call& c) { c.result(divided(c)); }}, {"aten.div.Scalar_mode", [](Call& c) { c.result(divided(c)); }},
    {"aten.floor_divide.default", [](Call& c) { c.result(c.is_tensor("other") ? div(c.tensor("self"), c.tensor("other"), {RoundingMode::kFloor}) : div(c.tensor("self"), c.number("other"), {RoundingMode::kFloor})); }},
    {"aten.remainder.Scalar", binary<remainder, remainder>}, {"aten.remainder.Tensor", binary<remainder, remainder>}, {"aten.fmod.Scalar", binary<fmod, fmod>},
    {"aten.add_.Tensor", [](Call& c) { c.write(added(c)); }, kWrite}, {"aten.add_.Scalar", [](Call& c) { c.write(added(c)); }, kWrite},
    {"aten.sub_.Tensor", [](Call& c) { c.write(subtracted(c)); }, kWrite}, {"aten.mul_.Tensor", binary_<mul, mul>, kWrite}, {"aten.mul_.Scalar", binary_<mul, mul>, kWrite},
    {"aten.div_.Tensor", [](Call& c) { c.write(divided(c)); }, kWrite}, {"aten.div_.Scalar", [](Call& c) { c.write(divided(c)); }, kWrite},
    {"aten.pow.Tensor_Scalar", pow_of}, {"aten.pow.Tensor_Tensor", pow_of}, {"aten.pow.Scalar", pow_of},
    {"aten.maximum.default", [](Call& c) { c.result(maximum(c.tensor("self"), c.tensor("other"))); }}, {"aten.minimum.default", [](Call& c) { c.result(minimum(c.tensor("self"), c.tensor("other"))); }},
    {"aten.addcmul.default", add_combined<mul>}, {"aten.addcdiv.default", add_combined<div>},

    {"aten.eq.Tensor", binary<eq, eq>}, {"aten.eq.Scalar", binary<eq, eq>}, {"aten.ne.Tensor", binary<ne, ne>}, {"aten.ne.Scalar", binary<ne, ne>},
    {"aten.lt.Tensor", binary<lt, lt>}, {"aten.lt.Scalar", binary<lt, lt>}, {"aten.le.Tensor", binary<le, le>}, {"aten.le.Scalar", binary<le, le>},
    {"aten.gt.Tensor", binary<gt, gt>}, {"aten.gt.Scalar", binary<gt, gt>}, {"aten.ge.Tensor", binary<ge, ge>}, {"aten.ge.Scalar", binary<ge, ge>},
    {"aten.__and__.Tensor", bitwise<logical_and>}, {"aten.bitwise_and.Tensor", bitwise<logical_and>}, {"aten.logical_and.default", [](Call& c) { c.result(logical_and(c.tensor("self"), c.tensor("other"))); }},
    {"aten.__or__.Tensor", bitwise<logical_or>}, {"aten.bitwise_or.Tensor", bitwise<logical_or>}, {"aten.logical_or.default", [](Call& c) { c.result(logical_or(c.tensor("self"), c.tensor("other"))); }},
    {"aten.bitwise_not.default", [](Call& c) { c.result(logical_not(truth(c, "self"))); }},

    {"aten.clamp.default", [](Call& c) { c.result(clamped(c)); }}, {"aten.clamp_min.default", [](Call& c) { c.result(clamped(c)); }}, {"aten.clamp_max.default", [](Call& c) { c.result(clamped(c)); }},
    {"aten.clamp_.default", [](Call& c) { c.write(clamped(c)); }, kWrite},
    {"aten.hardtanh.default", [](Call& c) { c.result(hardtanh_of(c)); }}, {"aten.hardtanh_.default", [](Call& c) { c.write(hardtanh_of(c)); }, kWrite},
    {"aten.leaky_relu.default", [](Call& c) { c.result(leaky_relu_of(c)); }}, {"aten.leaky_relu_.default", [](Call& c) { c.write(leaky_relu_of(c)); }, kWrite},
    {"aten.elu.default", [](Call& c) { c.result(elu_of(c)); }}, {"aten.elu_.default", [](Call& c) { c.write(elu_of(c)); }, kWrite},
    {"aten.gelu.default", [](Call& c) { c.result(gelu_of(c)); }}, {"aten.gelu_.default", [](Call& c) { c.write(gelu_of(c)); }, kWrite},
    {"aten.softplus.default", [](Call& c) { c.result(softplus(c.tensor("self"), {.beta = c.real("beta", 1.0), .threshold = c.real("threshold", 20.0)})); }},
    {"aten.where.self", where_of}, {"aten.where.ScalarSelf", where_of}, {"aten.where.ScalarOther", where_of},
    {"aten.masked_fill.Scalar", [](Call& c) { c.result(masked(c)); }}, {"aten.masked_fill.Tensor", [](Call& c) { c.result(masked(c)); }},
    {"aten.masked_fill_.Scalar", [](Call& c) { c.write(masked(c)); }, kWrite}, {"aten.masked_fill_.Tensor", [](Call& c) { c.write(masked(c)); }, kWrite},
    {"aten.fill_.Scalar", [](Call& c) { c.write(filled(c)); }, kWrite}, {"aten.fill_.Tensor", [](Call& c) { c.write(filled(c)); }, kWrite},
    {"aten.zero_.default", [](Call& c) { c.write(zeros_like(c.tensor("self"))); }, kWrite},
    {"aten.copy_.default", [](Call& c) { c.write(clone(c.tensor("src"))); }, kWrite},
    {"aten.bernoulli_.float", bernoulli_of, kWrite},

    {"_operator.add", integers<Sum::kAdd>}, {"_operator.sub", integers<Sum::kSub>}, {"_operator.mul", integers<Sum::kMul>},
    {"_operator.floordiv", integers<Sum::kFloorDiv>}, {"_operator.mod", integers<Sum::kMod>}, {"torch.sym_max", integers<Sum::kMax>}, {"torch.sym_min", integers<Sum::kMin>},
    {"_operator.truediv", quotient}, {"_operator.neg", negated},
    {"_operator.eq", compared<Order::kEq>}, {"_operator.ne", compared<Order::kNe>}, {"_operator.lt", compared<Order::kLt>},
    {"_operator.le", compared<Order::kLe>}, {"_operator.gt", compared<Order::kGt>}, {"_operator.ge", compared<Order::kGe>},
};
// clang-format on

}  // namespace

std::span<const Target> pointwise_targets() { return kPointwise; }

}  // namespace lathe::jit::pt2
