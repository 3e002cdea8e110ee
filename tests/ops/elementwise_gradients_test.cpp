// Gradients of the elementwise ops, views and in-place forms against finite differences, in every
// layout.
#include <cmath>

#include "compare.h"
#include "lathe/autograd/autocast.h"
#include "lathe/ops/inplace.h"
#include "lathe/ops/join.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/strided_adjoint.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/where.h"

using namespace lathe;
using namespace lathe::test;

namespace {
using In = const Tensors&;
const Tensor kMatrix = f64({3, 4});
const Tensor kPositive = f64_in({3, 4}, 0.3, 2.0);
// Kinks (0 for relu, the ends of clamp) lie further than a step from every value.
const Tensor kOffZero = f64_in({3, 4}, 0.2, 1.5) * tensor({1.0, -1.0, 1.0, -1.0}, kF64);

// clang-format off
const GradientCase kUnary[] = {
    {"neg", [](In x) { return neg(x[0]); }, {kMatrix}},
    {"abs", [](In x) { return abs(x[0]); }, {kOffZero}},
    {"square", [](In x) { return square(x[0]); }, {kMatrix}},
    {"exp", [](In x) { return exp(x[0]); }, {kMatrix}},
    {"expm1", [](In x) { return expm1(x[0]); }, {kMatrix}},
    {"log", [](In x) { return log(x[0]); }, {kPositive}},
    {"log1p", [](In x) { return log1p(x[0]); }, {kPositive}},
    {"log2", [](In x) { return log2(x[0]); }, {kPositive}},
    {"sqrt", [](In x) { return sqrt(x[0]); }, {kPositive}},
    {"rsqrt", [](In x) { return rsqrt(x[0]); }, {kPositive}},
    {"reciprocal", [](In x) { return reciprocal(x[0]); }, {kPositive}},
    {"sin", [](In x) { return sin(x[0]); }, {kMatrix}},
    {"cos", [](In x) { return cos(x[0]); }, {kMatrix}},
    {"log10", [](In x) { return log10(x[0]); }, {kPositive}},
    {"exp2", [](In x) { return exp2(x[0]); }, {kMatrix}},
    {"tan", [](In x) { return tan(x[0]); }, {f64_in({3, 4}, -1, 1)}},
    {"asin", [](In x) { return asin(x[0]); }, {f64_in({3, 4}, -0.8, 0.8)}},
    {"acos", [](In x) { return acos(x[0]); }, {f64_in({3, 4}, -0.8, 0.8)}},
    {"atan", [](In x) { return atan(x[0]); }, {kMatrix}},
    {"sinh", [](In x) { return sinh(x[0]); }, {kMatrix}},
    {"cosh", [](In x) { return cosh(x[0]); }, {kMatrix}},
    {"asinh", [](In x) { return asinh(x[0]); }, {kMatrix}},
    {"acosh", [](In x) { return acosh(x[0]); }, {f64_in({3, 4}, 1.5, 3)}},
    {"atanh", [](In x) { return atanh(x[0]); }, {f64_in({3, 4}, -0.8, 0.8)}},
    {"frac", [](In x) { return frac(x[0]); }, {f64_in({3, 4}, 1.2, 1.8)}},
    {"tanh", [](In x) { return tanh(x[0]); }, {kMatrix}},
    {"sigmoid", [](In x) { return sigmoid(x[0]); }, {kMatrix}},
    {"erf", [](In x) { return erf(x[0]); }, {kMatrix}},
    {"relu", [](In x) { return relu(x[0]); }, {kOffZero}},
    {"leaky_relu", [](In x) { return leaky_relu(x[0], 0.2); }, {kOffZero}},
    {"elu", [](In x) { return elu(x[0], 0.7); }, {kOffZero}},
    {"gelu", [](In x) { return gelu(x[0]); }, {kMatrix}},
    {"gelu tanh", [](In x) { return gelu(x[0], {.tanh_approximation = true}); }, {kMatrix}},
    {"silu", [](In x) { return silu(x[0]); }, {kMatrix}},
    {"softplus", [](In x) { return softplus(x[0], {.beta = 2, .threshold = 3}); }, {kMatrix}},
    {"clamp", [](In x) { return clamp(x[0], -0.1, 0.1); }, {kOffZero}},
    {"floor", [](In x) { return floor(x[0]) + x[0]; }, {f64_in({3, 4}, 0.2, 0.8)}},
    {"ceil", [](In x) { return ceil(x[0]) + x[0]; }, {f64_in({3, 4}, 0.2, 0.8)}},
    {"trunc", [](In x) { return trunc(x[0]) + x[0]; }, {f64_in({3, 4}, 0.2, 0.8)}},
    {"round", [](In x) { return round(x[0]) + x[0]; }, {f64_in({3, 4}, 0.6, 1.4)}},
    {"sign", [](In x) { return sign(x[0]) + x[0]; }, {kOffZero}},
};
const GradientCase kBinary[] = {
    {"add", [](In x) { return add(x[0], x[1]); }, {f64({3, 4}), f64({4})}},
    {"add scalar", [](In x) { return x[0] + 2.5; }, {kMatrix}},
    {"add alpha", [](In x) { return add(x[0], x[1], 2.5); }, {f64({3, 4}), f64({4})}},
    {"sub alpha", [](In x) { return sub(x[0], x[1], -0.5); }, {f64({3, 4}), f64({3, 1})}},
    {"sub", [](In x) { return sub(x[0], x[1]); }, {f64({3, 1}), f64({2, 1, 4})}},
    {"sub from scalar", [](In x) { return 2.5 - x[0]; }, {kMatrix}},
    {"mul", [](In x) { return mul(x[0], x[1]); }, {f64({3, 4}), f64({3, 1})}},
    {"mul self", [](In x) { return mul(x[0], x[0]); }, {kMatrix}},
    {"div", [](In x) { return div(x[0], x[1]); }, {f64({3, 4}), f64_in({4}, 0.5, 2)}},
    {"div of scalar", [](In x) { return 2.0 / x[0]; }, {kPositive}},
    {"div to zero", [](In x) { return div(x[0], x[1], {RoundingMode::kTrunc}) + x[0] * x[1]; }, {f64_in({3, 4}, 0.2, 0.8), f64_in({4}, -2, -1)}},
    {"div down", [](In x) { return div(x[0], x[1], {RoundingMode::kFloor}) + x[0] * x[1]; }, {f64_in({3, 4}, 0.2, 0.8), f64_in({4}, -2, -1)}},
    {"clamp by tensors", [](In x) { return clamp(x[0], x[1], x[2]); }, {kOffZero, f64_in({4}, -0.15, -0.05), f64_in({3, 1}, 0.05, 0.15)}},
    {"clamp from below", [](In x) { return clamp(x[0], x[1], {}); }, {kOffZero, f64_in({3, 1}, -0.15, 0.15)}},
    {"clamp from above", [](In x) { return clamp(x[0], {}, x[1]); }, {kOffZero, f64_in({3, 4}, -0.15, 0.15)}},
    {"maximum", [](In x) { return maximum(x[0], x[1]); }, {f64_in({3, 4}, 0, 1), f64_in({3, 4}, 1.1, 2)}},
    {"minimum", [](In x) { return minimum(x[0], x[1]); }, {f64_in({3, 4}, 0, 1), f64_in({4}, 1.1, 2)}},
    {"pow", [](In x) { return pow(x[0], x[1]); }, {kPositive, f64({4})}},
    {"pow scalar", [](In x) { return pow(x[0], 3); }, {kMatrix}},
    {"pow of scalar", [](In x) { return pow(2.0, x[0]); }, {kMatrix}},
    {"hypot", [](In x) { return hypot(x[0], x[1]); }, {kOffZero, f64_in({4}, 0.5, 2)}},
    {"fmod", [](In x) { return fmod(x[0], x[1]) * x[0]; }, {f64_in({3, 4}, -3.8, -3.2), f64_in({4}, 0.9, 1.0)}},
    {"remainder", [](In x) { return remainder(x[0], x[1]) * x[0]; }, {f64_in({3, 4}, -3.8, -3.2), f64_in({3, 1}, 0.9, 1.0)}},
    {"atan2", [](In x) { return atan2(x[0], x[1]); }, {kOffZero, f64_in({4}, -2, -0.5)}},
    {"lerp", [](In x) { return lerp(x[0], x[1], x[2]); }, {f64({3, 4}), f64({4}), f64_in({3, 1}, -0.5, 1.5)}},
    {"lerp by a number", [](In x) { return lerp(x[0], x[1], 0.75) + lerp(x[0], x[1], 0.25); }, {f64({3, 4}), f64({4})}},
    {"relu_grad", [](In x) { return relu_grad(x[0], x[1].detach()); }, {f64({3, 4}), kOffZero}},
    {"tanh_grad", [](In x) { return tanh_grad(x[0], x[1]); }, {f64({3, 4}), f64({3, 4})}},
    {"sigmoid_grad", [](In x) { return sigmoid_grad(x[0], x[1]); }, {f64({3, 4}), f64({3, 4})}},
    {"gelu_grad", [](In x) { return gelu_grad(x[0], x[1]); }, {f64({3, 4}), f64({3, 4})}},
    {"gelu_tanh_grad", [](In x) { return gelu_tanh_grad(x[0], x[1]); }, {f64({3, 4}), f64({3, 4})}},
};
// Three windows of two elements at distance 1: neighbours share an element.
const Geometry kLine = dense_geometry({5}), kWindows{{3, 2}, {1, 1}, 1};
const GradientCase kViews[] = {
    {"view", [](In x) { return view(x[0].contiguous(), {2, 6}); }, {kMatrix}},
    {"reshape", [](In x) { return reshape(x[0], {6, -1}); }, {kMatrix}},
    {"flatten", [](In x) { return flatten(x[0], 0, 1); }, {f64({2, 3, 2})}},
    {"squeeze", [](In x) { return squeeze(x[0]); }, {f64({3, 1, 2})}},
    {"unsqueeze", [](In x) { return unsqueeze(x[0], 1); }, {kMatrix}},
    {"transpose", [](In x) { return transpose(x[0], 0, 1); }, {kMatrix}},
    {"permute", [](In x) { return permute(x[0], {2, 0, 1}); }, {f64({2, 3, 2})}},
    {"expand", [](In x) { return expand(x[0], {2, 3, 4}); }, {f64({3, 1})}},
    {"select", [](In x) { return select(x[0], 1, -2); }, {kMatrix}},
    {"narrow", [](In x) { return narrow(x[0], 0, 1, 2); }, {kMatrix}},
    {"slice", [](In x) { return slice(x[0], 1, 0, 4, 2); }, {kMatrix}},
    {"split", [](In x) { return split(x[0], 3, 1)[1]; }, {kMatrix}},
    {"chunk", [](In x) { return chunk(x[0], 2, 0)[0]; }, {kMatrix}},
    {"as_strided", [](In x) { return as_strided(x[0].contiguous(), {3, 2}, {1, 2}, 1); }, {kMatrix}},  // overlaps
    {"cast", [](In x) { return x[0].to(kF64); }, {kMatrix}},
    {"to_device", [](In x) { return to_device(to_device(x[0], kCPU), x[0].device()); }, {kMatrix}},
    {"clone", [](In x) { return x[0].clone(); }, {kMatrix}},
    {"contiguous", [](In x) { return x[0].transpose(0, 1).contiguous(); }, {kMatrix}},
    {"scatter_strided", [](In x) { return scatter_strided(x[0], kWindows, kLine); }, {f64({3, 2})}},
    {"gather_strided", [](In x) { return gather_strided(x[0], kLine, kWindows); }, {f64({5})}},
    {"sum_to_shape", [](In x) { return sum_to_shape(x[0], {3, 1}); }, {f64({2, 3, 4})}},
};
// A fresh non-leaf, so that writing in place is legal.
Tensor fresh(const Tensor& x) { return x * 1.0; }
const GradientCase kInPlace[] = {
    {"add_", [](In x) { return fresh(x[0]).add_(x[1], 2); }, {f64({3, 4}), f64({4})}},
    {"sub_", [](In x) { return fresh(x[0]).sub_(x[1]); }, {f64({3, 4}), f64({4})}},
    {"mul_", [](In x) { return fresh(x[0]).mul_(x[1]); }, {f64({3, 4}), f64({4})}},
    {"div_", [](In x) { return fresh(x[0]).div_(x[1]); }, {f64({3, 4}), f64_in({4}, 0.5, 2)}},
    {"copy_", [](In x) { Tensor y = fresh(x[0]); y.narrow(0, 1, 2).copy_(x[1]); return y; }, {f64({3, 4}), f64({4})}},
    {"fill_", [](In x) { Tensor y = fresh(x[0]); y.select(1, 0).fill_(3); return y * x[0]; }, {kMatrix}},
    {"zero_", [](In x) { Tensor y = fresh(x[0]); y.select(1, 0).zero_(); return y * x[0]; }, {kMatrix}},
    {"assign_", [](In x) { return assign_("test", fresh(x[0]), x[1] * x[0]); }, {f64({3, 4}), f64({3, 4})}},
    {"masked_fill_", [](In x) { return masked_fill_(fresh(x[0]), gt(x[0].detach(), 0.0), 0.5); }, {kOffZero}},
    {"masked_fill_ by a tensor", [](In x) { return masked_fill_(fresh(x[0]), gt(x[0].detach(), 0.0), x[1]); }, {kOffZero, f64({})}},
    {"sub_ alpha", [](In x) { return sub_(fresh(x[0]), x[1], 2); }, {f64({3, 4}), f64({4})}},
    {"div_ down", [](In x) { return div_(fresh(x[0]), x[1], {RoundingMode::kFloor}) + x[0]; }, {f64_in({3, 4}, 0.2, 0.8), f64_in({4}, 1, 2)}},
    {"clamp_ by tensors", [](In x) { return clamp_(fresh(x[0]), x[1], x[2]); }, {kOffZero, f64_in({4}, -0.15, -0.05), f64_in({3, 1}, 0.05, 0.15)}},
    {"exp_", [](In x) { return exp_(fresh(x[0])); }, {kMatrix}},
    {"tanh_", [](In x) { return tanh_(fresh(x[0])); }, {kMatrix}},
    {"sigmoid_", [](In x) { return sigmoid_(fresh(x[0])); }, {kMatrix}},
    {"sqrt_", [](In x) { return sqrt_(fresh(x[0])); }, {kPositive}},
    {"relu_", [](In x) { return relu_(fresh(x[0])); }, {kOffZero}},
    {"neg_", [](In x) { return neg_(fresh(x[0])); }, {kMatrix}},
    {"clamp_", [](In x) { return fresh(x[0]).clamp_(-0.1, 0.1); }, {kOffZero}},
    {"a view written, then its base read", [](In x) {
       Tensor y = fresh(x[0]);
       y.select(0, 1).mul_(x[0][2]);
       return y; }, {kMatrix}},
    {"a base written, then an older view read", [](In x) {
       Tensor y = fresh(x[0]);
       const Tensor v = y.transpose(0, 1).narrow(0, 1, 2);
       y.mul_(x[1]);
       return v * v; }, {f64({3, 4}), f64({4})}},
    {"two views of constants written", [](In x) {
       const Tensor room = zeros({3, 8}, {.dtype = x[0].dtype(), .device = x[0].device()});
       room.narrow(1, 0, 4).copy_(x[0]);
       room.narrow(1, 4, 4).add_(square(x[0]));
       return room; }, {kMatrix}},
};
// clang-format on

/// dx of f at `points` under Autocast, for a dy as large as a scaled loss makes it. 0 where y is not
/// finite: outside of f's domain.
std::vector<double> half_gradient(const GradientCase& c, const Tensor& points, DType half) {
  const Tensor x = points.to(half).requires_grad_();
  Tensor y;
  {
    const Autocast scope(kCPU, half);
    y = c.f({x});
  }
  y.backward(full_like(y, 0x1p15));
  return where(isfinite(y), x.grad(), 0).to_vector<double>();
}
}  // namespace

TEST_CASE("unary ops: gradients agree with finite differences, twice, in every layout") {
  for (const GradientCase& c : kUnary) check_gradients(c);
}
TEST_CASE("unary ops: a gradient that f16 holds is not lost to overflow on the way") {
  // Numbers that both half types hold.
  const Tensor points = tensor({0x1p-7, 0.5, 0.875, 2.0, 10.0, 300.0, 1000.0, 28672.0}, kF64);
  const Tensor both = cat({points, -points});
  for (const GradientCase& c : kUnary) {
    // bf16 has the range of f32. Where it finds a number that f16 holds too, f16 must not find 0,
    // infinity or NaN. Numbers below 2^-10 may be products with a factor that f16 rounds to 0.
    const std::vector<double> wide = half_gradient(c, both, kBF16);
    const std::vector<double> narrow = half_gradient(c, both, kF16);
    for (size_t i = 0; i < wide.size(); ++i) {
      if (!(std::fabs(wide[i]) >= 0x1p-10 && std::fabs(wide[i]) <= 0x1p15)) continue;
      CHECK_MESSAGE((std::isfinite(narrow[i]) && narrow[i] != 0), c.op, " at ",
                    both[static_cast<int64_t>(i)].item<double>(), ": the gradient is ", narrow[i],
                    " in f16, but ", wide[i],
                    " in bf16: write it in another way, or take ranged(x)");
    }
  }
}
TEST_CASE("binary ops: gradients agree with finite differences, twice, in every layout") {
  for (const GradientCase& c : kBinary) check_gradients(c);
}
TEST_CASE("views: gradients agree with finite differences, twice, in every layout") {
  for (const GradientCase& c : kViews) check_gradients(c);
}
TEST_CASE("in-place ops: gradients agree with finite differences, twice, in every layout") {
  for (const GradientCase& c : kInPlace) check_gradients(c);
}
