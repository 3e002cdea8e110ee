// Operators of single elements, and of symbolic numbers.
// Contract: pt2_call.h.
#include <cmath>

#include "lathe/core/checked_size.h"
#include "lathe/graph/pt2/pt2_call.h"
#include "lathe/ops/activations.h"
#include "lathe/ops/arithmetic.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/bitwise.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/isclose.h"
#include "lathe/ops/random.h"
#include "lathe/ops/special.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/where.h"

namespace lathe::jit::pt2 {

namespace {

/// y = op(self).
template <Tensor (*op)(const Tensor&)>
void unary(Call& c) {
  c.result(op(c.self()));
}

/// y = op(self, other).
template <Tensor (*op)(const Tensor&, const Tensor&)>
void of_two(Call& c) {
  c.result(op(c.self(), c.tensor("other")));
}

/// y = op(self, other), where `other` may be a number.
template <Tensor (*of_tensors)(const Tensor&, const Tensor&),
          Tensor (*of_number)(const Tensor&, Scalar)>
void binary(Call& c) {
  const Tensor self = c.self();
  c.result(c.is_tensor("other") ? of_tensors(self, c.tensor("other"))
                                : of_number(self, c.number("other")));
}

/// y = op(self, other), where `self` is a number.
template <Tensor (*op)(Scalar, const Tensor&)>
void of_number_first(Call& c) {
  c.result(op(c.number("self"), c.tensor("other")));
}

/// The same for an op whose operands may be exchanged.
template <Tensor (*op)(const Tensor&, Scalar)>
void commuted(Call& c) {
  c.result(op(c.tensor("other"), c.number("self")));
}

Scalar times(Scalar a, Scalar b) {
  if (a.is_floating() || b.is_floating()) return a.to<double>() * b.to<double>();
  int64_t product = 0;
  LATHE_CHECK(ValueError, !__builtin_mul_overflow(a.to<int64_t>(), b.to<int64_t>(), &product),
              a.to<int64_t>(), " * ", b.to<int64_t>(), " is too large");
  return product;
}

/// self + alpha * other.
void added(Call& c) {
  const Scalar alpha = c.number("alpha", 1);
  const Tensor self = c.tensor("self");
  if (!c.is_tensor("other")) return c.result(add(self, times(c.number("other"), alpha)));
  if (alpha.to<double>() == 1) return c.result(add(self, c.tensor("other")));
  c.result(add(self, c.tensor("other"), alpha));
}
/// self - alpha * other.
void subtracted(Call& c) {
  const Scalar alpha = c.number("alpha", 1);
  const Tensor self = c.tensor("self");
  if (!c.is_tensor("other")) return c.result(sub(self, times(c.number("other"), alpha)));
  if (alpha.to<double>() == 1) return c.result(sub(self, c.tensor("other")));
  c.result(sub(self, c.tensor("other"), alpha));
}

/// other - alpha * self.
void subtracted_from(Call& c) {
  const Tensor self = mul(c.tensor("self"), c.number("alpha", 1));
  c.result(c.is_tensor("other") ? sub(c.tensor("other"), self) : sub(c.number("other"), self));
}

void floor_divided(Call& c) {
  constexpr DivOptions kFloor{RoundingMode::kFloor};
  const Tensor self = c.self();
  c.result(c.is_tensor("other") ? div(self, c.tensor("other"), kFloor)
                                : div(self, c.number("other"), kFloor));
}
void divided(Call& c) {
  const std::string word = c.word("rounding_mode", "");
  DivOptions options;
  if (word == "floor") options.rounding_mode = RoundingMode::kFloor;
  if (word == "trunc") options.rounding_mode = RoundingMode::kTrunc;
  const Tensor self = c.self();
  if (c.is_tensor("other")) return c.result(div(self, c.tensor("other"), options));
  c.result(div(self, c.number("other"), options));
}

/// Limits that are tensors; one of them may be missing.
Tensor clamped_to(const Tensor& self, const Tensor& low, const Tensor& high) {
  if (low.defined() && high.defined()) return clamp(self, low, high);
  return low.defined() ? maximum(self, low) : minimum(self, high);
}

void clamped(Call& c) {
  if (c.is_tensor("min") || c.is_tensor("max")) {
    return c.result(clamped_to(c.self(), c.maybe("min"), c.maybe("max")));
  }
  ClampOptions options;
  if (c.has("min")) options.low = c.number("min");
  if (c.has("max")) options.high = c.number("max");
  c.result(clamp(c.self(), options));
}
void hardtanh_of(Call& c) {
  c.result(hardtanh(c.self(), c.real("min_val", -1.0), c.real("max_val", 1.0)));
}
void leaky_relu_of(Call& c) { c.result(leaky_relu(c.self(), c.real("negative_slope", 0.01))); }
void elu_of(Call& c) {
  if (c.real("scale", 1.0) != 1 || c.real("input_scale", 1.0) != 1) c.refuse("has scales");
  c.result(elu(c.self(), c.real("alpha", 1.0)));
}
void threshold_of(Call& c) {
  const Tensor self = c.self();
  c.result(masked_fill(self, le(self, c.number("threshold")), c.number("value")));
}

void nan_to_num_of(Call& c) {
  NanToNumOptions o{.nan = c.real("nan", 0.0)};
  if (c.has("posinf")) o.posinf = c.real("posinf");
  if (c.has("neginf")) o.neginf = c.real("neginf");
  c.result(nan_to_num(c.self(), o));
}
void gelu_of(Call& c) {
  c.result(gelu(c.self(), {.tanh_approximation = c.word("approximate", "none") == "tanh"}));
}
void filled(Call& c) {
  const Tensor self = c.tensor("self");
  if (c.is_tensor("value")) return c.result(c.tensor("value"));
  c.result(full({}, c.number("value"), {.dtype = self.dtype(), .device = self.device()}));
}
void masked(Call& c) {
  const Tensor self = c.tensor("self"), mask = c.tensor("mask");
  if (c.is_tensor("value")) return c.result(masked_fill(self, mask, c.tensor("value")));
  c.result(masked_fill(self, mask, c.number_in(self, "value")));
}

void pow_of(Call& c) {
  if (!c.is_tensor("self")) return c.result(pow(c.number("self"), c.tensor("exponent")));
  if (c.is_tensor("exponent")) return c.result(pow(c.self(), c.tensor("exponent")));
  c.result(pow(c.self(), c.number("exponent")));
}

void lerp_of(Call& c) {
  const Tensor self = c.tensor("self"), end = c.tensor("end");
  if (c.is_tensor("weight")) return c.result(lerp(self, end, c.tensor("weight")));
  c.result(lerp(self, end, c.real("weight")));
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
  if (c.is_stochastic_depth() && !c.trains()) return c.result(ones_like(self));
  c.result(bernoulli(full_like(self, c.real("p", 0.5))));
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
    c.refuse("takes integers only");
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
// A row also serves its in-place form (find_target()): aten.abs is aten.abs_, too.
constexpr Target kPointwise[] = {
    {"aten.neg.default", unary<neg>}, {"aten.abs.default", unary<abs>}, {"aten.sign.default", unary<sign>}, {"aten.square.default", unary<square>}, {"aten.frac.default", unary<frac>},
    {"aten.floor.default", unary<floor>}, {"aten.ceil.default", unary<ceil>}, {"aten.round.default", unary<round>}, {"aten.trunc.default", unary<trunc>},
    {"aten.exp.default", unary<exp>}, {"aten.exp2.default", unary<exp2>}, {"aten.expm1.default", unary<expm1>},
    {"aten.log.default", unary<log>}, {"aten.log1p.default", unary<log1p>}, {"aten.log2.default", unary<log2>}, {"aten.log10.default", unary<log10>},
    {"aten.sqrt.default", unary<sqrt>}, {"aten.rsqrt.default", unary<rsqrt>}, {"aten.reciprocal.default", unary<reciprocal>},
    {"aten.sin.default", unary<sin>}, {"aten.cos.default", unary<cos>}, {"aten.tan.default", unary<tan>}, {"aten.asin.default", unary<asin>}, {"aten.acos.default", unary<acos>}, {"aten.atan.default", unary<atan>},
    {"aten.sinh.default", unary<sinh>}, {"aten.cosh.default", unary<cosh>}, {"aten.asinh.default", unary<asinh>}, {"aten.acosh.default", unary<acosh>}, {"aten.atanh.default", unary<atanh>},
    {"aten.lgamma.default", unary<lgamma>}, {"aten.digamma.default", unary<digamma>}, {"aten.polygamma.default", [](Call& c) { c.result(polygamma(c.integer("n"), c.self())); }},
    {"aten.erf.default", unary<erf>}, {"aten.tanh.default", unary<tanh>}, {"aten.sigmoid.default", unary<sigmoid>}, {"aten.log_sigmoid.default", unary<logsigmoid>},
    {"aten.relu.default", unary<relu>}, {"aten.relu6.default", unary<relu6>}, {"aten.silu.default", unary<silu>}, {"aten.mish.default", unary<mish>},
    {"aten.selu.default", unary<selu>}, {"aten.hardsigmoid.default", unary<hardsigmoid>}, {"aten.hardswish.default", unary<hardswish>},
    {"aten.isnan.default", unary<isnan>}, {"aten.isinf.default", unary<isinf>}, {"aten.isfinite.default", unary<isfinite>}, {"aten.logical_not.default", unary<logical_not>},

    {"aten.add.Tensor", added}, {"aten.add.Scalar", added}, {"aten.sub.Tensor", subtracted}, {"aten.sub.Scalar", subtracted},
    {"aten.rsub.Tensor", subtracted_from}, {"aten.rsub.Scalar", subtracted_from},
    {"aten.mul.Tensor", mul_of}, {"aten.mul.Scalar", binary<mul, mul>},
    {"aten.div.Tensor", divided}, {"aten.div.Scalar", divided}, {"aten.div.Tensor_mode", divided}, {"aten.div.Scalar_mode", divided},
    {"aten.floor_divide.default", floor_divided}, {"aten.floor_divide.Scalar", floor_divided}, {"aten.floor_divide_.Tensor", floor_divided, kWrite},
    {"aten.remainder.Scalar", binary<remainder, remainder>}, {"aten.remainder.Tensor", binary<remainder, remainder>}, {"aten.fmod.Scalar", binary<fmod, fmod>}, {"aten.fmod.Tensor", binary<fmod, fmod>},
    {"aten.pow.Tensor_Scalar", pow_of}, {"aten.pow.Tensor_Tensor", pow_of}, {"aten.pow.Scalar", pow_of}, {"aten.pow_.Scalar", pow_of, kWrite}, {"aten.pow_.Tensor", pow_of, kWrite},
    {"aten.maximum.default", of_two<maximum>}, {"aten.minimum.default", of_two<minimum>}, {"aten.max.other", of_two<maximum>}, {"aten.min.other", of_two<minimum>},
    {"aten.atan2.default", of_two<atan2>}, {"aten.hypot.default", of_two<hypot>}, {"aten.logaddexp.default", of_two<logaddexp>},
    {"aten.addcmul.default", add_combined<mul>}, {"aten.addcdiv.default", add_combined<div>}, {"aten.lerp.Scalar", lerp_of}, {"aten.lerp.Tensor", lerp_of},

    {"aten.eq.Tensor", binary<eq, eq>}, {"aten.eq.Scalar", binary<eq, eq>}, {"aten.ne.Tensor", binary<ne, ne>}, {"aten.ne.Scalar", binary<ne, ne>},
    {"aten.lt.Tensor", binary<lt, lt>}, {"aten.lt.Scalar", binary<lt, lt>}, {"aten.le.Tensor", binary<le, le>}, {"aten.le.Scalar", binary<le, le>},
    {"aten.gt.Tensor", binary<gt, gt>}, {"aten.gt.Scalar", binary<gt, gt>}, {"aten.ge.Tensor", binary<ge, ge>}, {"aten.ge.Scalar", binary<ge, ge>},
    {"aten.logical_and.default", of_two<logical_and>}, {"aten.logical_or.default", of_two<logical_or>}, {"aten.logical_xor.default", of_two<logical_xor>},
    {"aten.__and__.Tensor", binary<bitwise_and, bitwise_and>}, {"aten.bitwise_and.Tensor", binary<bitwise_and, bitwise_and>}, {"aten.bitwise_and.Scalar", binary<bitwise_and, bitwise_and>}, {"aten.__and__.Scalar", binary<bitwise_and, bitwise_and>},
    {"aten.__or__.Tensor", binary<bitwise_or, bitwise_or>}, {"aten.bitwise_or.Tensor", binary<bitwise_or, bitwise_or>}, {"aten.bitwise_or.Scalar", binary<bitwise_or, bitwise_or>}, {"aten.__or__.Scalar", binary<bitwise_or, bitwise_or>},
    {"aten.__xor__.Tensor", binary<bitwise_xor, bitwise_xor>}, {"aten.bitwise_xor.Tensor", binary<bitwise_xor, bitwise_xor>}, {"aten.bitwise_xor.Scalar", binary<bitwise_xor, bitwise_xor>}, {"aten.__xor__.Scalar", binary<bitwise_xor, bitwise_xor>},
    {"aten.bitwise_left_shift.Tensor", binary<bitwise_left_shift, bitwise_left_shift>}, {"aten.bitwise_left_shift.Tensor_Scalar", binary<bitwise_left_shift, bitwise_left_shift>},
    {"aten.__lshift__.Tensor", binary<bitwise_left_shift, bitwise_left_shift>}, {"aten.__lshift__.Scalar", binary<bitwise_left_shift, bitwise_left_shift>},
    {"aten.bitwise_right_shift.Tensor", binary<bitwise_right_shift, bitwise_right_shift>}, {"aten.bitwise_right_shift.Tensor_Scalar", binary<bitwise_right_shift, bitwise_right_shift>},
    {"aten.__rshift__.Tensor", binary<bitwise_right_shift, bitwise_right_shift>}, {"aten.__rshift__.Scalar", binary<bitwise_right_shift, bitwise_right_shift>},
    {"aten.bitwise_and.Scalar_Tensor", commuted<bitwise_and>}, {"aten.bitwise_or.Scalar_Tensor", commuted<bitwise_or>}, {"aten.bitwise_xor.Scalar_Tensor", commuted<bitwise_xor>},
    {"aten.bitwise_left_shift.Scalar_Tensor", of_number_first<bitwise_left_shift>}, {"aten.bitwise_right_shift.Scalar_Tensor", of_number_first<bitwise_right_shift>},
    {"aten.bitwise_not.default", unary<bitwise_not>},

    {"aten.clamp.default", clamped}, {"aten.clamp_min.default", clamped}, {"aten.clamp_max.default", clamped}, {"aten.clamp.Tensor", clamped}, {"aten.clamp_min.Tensor", clamped}, {"aten.clamp_max.Tensor", clamped},
    {"aten.hardtanh.default", hardtanh_of}, {"aten.leaky_relu.default", leaky_relu_of}, {"aten.elu.default", elu_of}, {"aten.celu.default", [](Call& c) { c.result(celu(c.self(), c.real("alpha", 1.0))); }}, {"aten.gelu.default", gelu_of},
    {"aten.softplus.default", [](Call& c) { c.result(softplus(c.self(), {.beta = c.real("beta", 1.0), .threshold = c.real("threshold", 20.0)})); }},
    {"aten.hardshrink.default", [](Call& c) { c.result(hardshrink(c.self(), c.real("lambd", 0.5))); }}, {"aten.softshrink.default", [](Call& c) { c.result(softshrink(c.self(), c.real("lambd", 0.5))); }}, {"aten.threshold.default", threshold_of}, {"aten.nan_to_num.default", nan_to_num_of},
    {"aten.glu.default", [](Call& c) { c.result(glu(c.tensor("self"), c.integer("dim", -1))); }}, {"aten.prelu.default", [](Call& c) { c.result(prelu(c.self(), c.tensor("weight"))); }},
    {"aten.where.self", where_of}, {"aten.where.ScalarSelf", where_of}, {"aten.where.ScalarOther", where_of},
    {"aten.masked_fill.Scalar", masked}, {"aten.masked_fill.Tensor", masked},
    {"aten.fill_.Scalar", filled, kWrite}, {"aten.fill_.Tensor", filled, kWrite},
    {"aten.zero_.default", [](Call& c) { c.result(zeros_like(c.tensor("self"))); }, kWrite},
    {"aten.copy_.default", [](Call& c) { c.result(clone(c.tensor("src"))); }, kWrite},
    {"aten.bernoulli_.float", bernoulli_of, kWrite},
    {"aten.isclose.default", [](Call& c) { c.result(isclose(c.tensor("self"), c.tensor("other"), {.rtol = c.real("rtol", 1e-5), .atol = c.real("atol", 1e-8), .equal_nan = c.boolean("equal_nan", false)})); }},

    {"_operator.add", integers<Sum::kAdd>}, {"_operator.sub", integers<Sum::kSub>}, {"_operator.mul", integers<Sum::kMul>},
    {"_operator.floordiv", integers<Sum::kFloorDiv>}, {"_operator.mod", integers<Sum::kMod>}, {"torch.sym_max", integers<Sum::kMax>}, {"torch.sym_min", integers<Sum::kMin>},
    {"_operator.truediv", quotient}, {"_operator.neg", negated}, {"torch.sym_float", [](Call& c) { c.result(c.real("a")); }},
    {"_operator.eq", compared<Order::kEq>}, {"_operator.ne", compared<Order::kNe>}, {"_operator.lt", compared<Order::kLt>},
    {"_operator.le", compared<Order::kLe>}, {"_operator.gt", compared<Order::kGt>}, {"_operator.ge", compared<Order::kGe>},
};
// clang-format on

}  // namespace

std::span<const Target> pointwise_targets() { return kPointwise; }

}  // namespace lathe::jit::pt2
