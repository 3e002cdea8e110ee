// Gradients where a convention decides: at NaN and infinity, at ties and kinks, over nothing. The
// rules stand in ops/README.md. The numbers are PyTorch's (2.15, f64; of clamp 1.13's): each case is
//   y = f(x); y.backward(torch.full_like(y, 2.))
// with f as the case is named, unless the case says otherwise.
#include <limits>

#include "compare.h"
#include "lathe/autograd/engine.h"
#include "lathe/ops/activations.h"
#include "lathe/ops/batch_norm.h"
#include "lathe/ops/distance.h"
#include "lathe/ops/losses/losses.h"
#include "lathe/ops/losses/margin_losses.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"

using namespace lathe;
using namespace lathe::test;

namespace {

using Values = std::vector<double>;
using In = const Tensors&;
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

struct Case {
  std::string torch;  // the call in PyTorch
  Function f;
  std::vector<Values> inputs;
  Values y;
  std::vector<Values> gradients;
};

// clang-format off
const Values kPoints = {kNaN, kInf, -kInf, 0, -0.0, 1, -1};
const Case kOne[] = {
    {"torch.abs", [](In x) { return abs(x[0]); }, {kPoints},
     {kNaN, kInf, kInf, 0, 0, 1, 1}, {{0, 2, -2, 0, 0, 2, -2}}},
    {"torch.sign", [](In x) { return sign(x[0]); }, {kPoints},
     {0, 1, -1, 0, 0, 1, -1}, {{0, 0, 0, 0, 0, 0, 0}}},
    {"torch.relu", [](In x) { return relu(x[0]); }, {kPoints},
     {kNaN, kInf, 0, 0, 0, 1, 0}, {{2, 2, 0, 0, 0, 2, 0}}},
    {"F.leaky_relu(x, 0.25)", [](In x) { return leaky_relu(x[0], 0.25); }, {kPoints},
     {kNaN, kInf, -kInf, 0, 0, 1, -0.25}, {{0.5, 2, 0.5, 0.5, 0.5, 2, 0.5}}},
    {"F.elu", [](In x) { return elu(x[0]); }, {{kNaN, kInf, -kInf, 0, 1}},
     {kNaN, kInf, -1, 0, 1}, {{2, 2, 0, 2, 2}}},
    {"F.softplus", [](In x) { return softplus(x[0]); }, {{kNaN, kInf, -kInf}},
     {kNaN, kInf, 0}, {{kNaN, 2, 0}}},
    {"torch.sqrt", [](In x) { return sqrt(x[0]); }, {{kNaN, kInf, 0, 1}},
     {kNaN, kInf, 0, 1}, {{kNaN, 0, kInf, 1}}},
    {"torch.clamp(x, 0, 1)", [](In x) { return clamp(x[0], 0, 1); }, {{kNaN, kInf, -kInf, 0, 1, 0.5}},
     {kNaN, 1, 0, 0, 1, 0.5}, {{0, 0, 0, 2, 2, 2}}},
    {"torch.clamp(x, nan, 1)", [](In x) { return clamp(x[0], kNaN, 1.0); }, {{0, kNaN, 2}},
     {kNaN, kNaN, kNaN}, {{0, 0, 0}}},
    {"torch.clamp(x, 0, nan)", [](In x) { return clamp(x[0], 0.0, kNaN); }, {{0, kNaN, 2}},
     {kNaN, kNaN, kNaN}, {{0, 0, 0}}},
    {"torch.linalg.vector_norm(x, 0)", [](In x) { return vector_norm(x[0], 0); }, {{kNaN, 1, 0, kInf}}, {3}, {{0, 0, 0, 0}}},
    {"F.hinge_embedding_loss(x, -ones(6), reduction='none')",
     [](In x) { return hinge_embedding_loss(x[0], full_like(x[0], -1), {.reduction = Reduction::kNone}); },
     {{1, 0, 2, kNaN, kInf, -kInf}}, {0, 1, 0, kNaN, 0, kInf}, {{0, -2, 0, 0, 0, -2}}},
    {"x.max()", [](In x) { return max(x[0]); }, {{1, kNaN, 3, kNaN}}, {kNaN}, {{0, 1, 0, 1}}},
    {"x.min()", [](In x) { return min(x[0]); }, {{1, kNaN, 3, kNaN}}, {kNaN}, {{0, 1, 0, 1}}},
    // Of several dimensions or one it is the same rule here; PyTorch's amax gives NaN throughout.
    {"amax(x) as x.max()", [](In x) { return amax(x[0], {0}); }, {{1, kNaN, 3, 5}}, {kNaN}, {{0, 2, 0, 0}}},
    {"amin(x) as x.min()", [](In x) { return amin(x[0], {0}); }, {{1, kNaN, 3, kNaN}}, {kNaN}, {{0, 1, 0, 1}}},
};

const Values kLeft = {kNaN, 1, kNaN, 1, 2, 1, kInf, -kInf};
const Values kRight = {1, kNaN, kNaN, 1, 1, 2, kInf, kInf};
const Values kApart = {0, 0.25, 0.5, 1, -0.5, kNaN, kInf, -kInf};  // x, against y = 0
const Case kTwo[] = {
    {"torch.maximum", [](In x) { return maximum(x[0], x[1]); }, {kLeft, kRight},
     {kNaN, kNaN, kNaN, 1, 2, 2, kInf, kInf}, {{2, 2, 2, 1, 2, 0, 1, 0}, {2, 2, 2, 1, 0, 2, 1, 2}}},
    {"torch.minimum", [](In x) { return minimum(x[0], x[1]); }, {kLeft, kRight},
     {kNaN, kNaN, kNaN, 1, 1, 1, kInf, -kInf}, {{2, 2, 2, 1, 0, 2, 1, 2}, {2, 2, 2, 1, 2, 0, 1, 0}}},
    {"torch.pow", [](In x) { return pow(x[0], x[1]); }, {{0, 0, 0, 0, 0, kNaN}, {-1, 0, 1, -0.5, 2, 0}},
     {kInf, 1, 0, kInf, 0, 1}, {{-kInf, 0, 2, -kInf, 0, 0}, {-kInf, 0, 0, -kInf, 0, kNaN}}},
    {"F.margin_ranking_loss(x, y, ones(4), reduction='none')",
     [](In x) { return margin_ranking_loss(x[0], x[1], ones_like(x[0]), {.reduction = Reduction::kNone}); },
     {{1, 0, 2, kNaN}, {1, 1, 1, 1}}, {0, 1, 0, kNaN}, {{0, -2, 0, 0}, {0, 2, 0, 0}}},
    {"torch.hypot", [](In x) { return hypot(x[0], x[1]); }, {{0, kInf, kNaN, 0, -4, kInf}, {0, 1, kInf, 2, 0, kNaN}},
     {0, kInf, kInf, 2, 4, kInf}, {{kNaN, kNaN, kNaN, 0, -2, kNaN}, {kNaN, 0, kNaN, 2, 0, kNaN}}},
    {"F.l1_loss(x, y, reduction='none')", [](In x) { return l1_loss(x[0], x[1], {Reduction::kNone}); },
     {kApart, Values(8)}, {0, 0.25, 0.5, 1, 0.5, kNaN, kInf, kInf},
     {{0, 2, 2, 2, -2, 0, 2, -2}, {0, -2, -2, -2, 2, 0, -2, 2}}},
    {"F.smooth_l1_loss(x, y, beta=.5, reduction='none')",
     [](In x) { return smooth_l1_loss(x[0], x[1], {.beta = 0.5, .reduction = Reduction::kNone}); },
     {kApart, Values(8)}, {0, 0.0625, 0.25, 0.75, 0.25, kNaN, kInf, kInf},
     {{0, 1, 2, 2, -2, kNaN, 2, -2}, {0, -1, -2, -2, 2, kNaN, -2, 2}}},
};
// clang-format on

Tensors leaves(const std::vector<Values>& inputs, DType dtype, Device device) {
  Tensors all;
  for (const Values& v : inputs)
    all.push_back(tensor(v).to(dtype).to(device).detach().requires_grad_());
  return all;
}

/// All values of the cases are exact in every floating dtype.
void check(const Case& c) {
  for (const Device device : devices()) {
    for (const DType dtype : {kF64, kF32, kF16, kBF16}) {
      CAPTURE(concat(c.torch, " ", dtype, " on ", device));
      const Tensors in = leaves(c.inputs, dtype, device);
      const Tensor y = c.f(in);
      CHECK(difference(y.cpu(), c.y, 0) == "");
      y.backward(full_like(y, 2));
      for (size_t i = 0; i < in.size(); ++i) {
        CHECK_MESSAGE(difference(in[i].grad().cpu(), c.gradients[i], 0) == "", "input ", i);
      }
    }
  }
}

}  // namespace

TEST_CASE("special values: gradients at NaN, infinity, ties and kinks are PyTorch's") {
  for (const Case& c : kOne) check(c);
  for (const Case& c : kTwo) check(c);
}

TEST_CASE("special values: what lost or was cut off gets exactly 0, whatever comes back") {
  struct Loser {
    std::string name;
    Tensor (*f)(const Tensor& x);
    Values x, passed;  // 1 where the gradient passes
  };
  const Loser losers[] = {
      {"clamp", [](const Tensor& x) { return clamp(x, 0.0, 1.0); }, {-1, 0.5, 2}, {0, 1, 0}},
      {"maximum", [](const Tensor& x) { return maximum(x, ones_like(x)); }, {0, 2, 0}, {0, 1, 0}},
      {"minimum", [](const Tensor& x) { return minimum(x, ones_like(x)); }, {0, 2, 0}, {1, 0, 1}},
      {"relu", [](const Tensor& x) { return relu(x); }, {-1, 2, -3}, {0, 1, 0}},
      {"amax",
       [](const Tensor& x) { return amax(x, {0}, {.keepdim = true}); },
       {1, 2, 0},
       {0, 1, 0}},
      {"norm", [](const Tensor& x) { return norm(x, {0}); }, {0, 0, 0}, {0, 0, 0}},
      {"std", [](const Tensor& x) { return lathe::std(x, {0}); }, {4, 4, 4}, {0, 0, 0}},
      {"hardswish", [](const Tensor& x) { return hardswish(x); }, {-4, 3, -3}, {0, 1, 0}},
  };
  for (const Loser& l : losers) {
    for (const double back : {kNaN, kInf}) {
      CAPTURE(l.name);
      const Tensor x = tensor(l.x).requires_grad_(), y = l.f(x);
      y.backward(full_like(y, back));
      Values want = l.passed;
      for (double& v : want) v = v == 0 ? 0 : back;
      CHECK(difference(x.grad(), want, 0) == "");
    }
  }
}

TEST_CASE("special values: smooth_l1_loss bends inside the corners only") {
  // torch.autograd.grad of the gradient's sum: 1 / beta for |x - y| < beta, at 0 too; 0 at beta.
  const Tensor x = tensor(Values{0, 0.25, 0.5, 1, -0.5, kInf}).requires_grad_();
  const Tensor y =
      smooth_l1_loss(x, zeros_like(x.detach()), {.beta = 0.5, .reduction = Reduction::kSum});
  const Tensor slope = grad({y}, {x}, {.create_graph = true})[0];
  CHECK(difference(slope, {0, 0.5, 1, 1, -1, 1}, 0) == "");
  CHECK(difference(grad({slope.sum()}, {x})[0], {2, 2, 0, 0, 0, 0}, 0) == "");
}

TEST_CASE("special values: a fused relu passes what relu passes") {
  // NaN, 0, above and below, normalised by running statistics of mean 0 and variance 1.
  const Values values{kNaN, 0, 1, -1};
  const Tensor mean = zeros({1}, {.dtype = kF64}), var = ones({1}, {.dtype = kF64});
  const BatchNormOptions opt{.eps = 0};
  for (const bool create_graph : {false, true}) {
    const auto gradient = [&](auto f) {
      const Tensor x = tensor(values).view({4, 1}).requires_grad_();
      return grad(
          {f(x)}, {x},
          {.grad_outputs = {full({4, 1}, 2.0, {.dtype = kF64})}, .create_graph = create_graph})[0];
    };
    CHECK(difference(
              gradient([&](const Tensor& x) { return batch_norm_relu(x, {}, {}, mean, var, opt); }),
              {2, 0, 2, 0}, 0) == "");
    CHECK(difference(gradient([&](const Tensor& x) {
                       return batch_norm_add_relu(x, zeros_like(x.detach()), {}, {}, mean, var,
                                                  opt);
                     }),
                     {2, 0, 2, 0}, 0) == "");
  }
}

TEST_CASE("special values: the second derivative of a reduction of nothing") {
  // x = torch.zeros(0, 2, dtype=torch.float64, requires_grad=True); y = f(x)
  // g, = torch.autograd.grad(y, x, dy, create_graph=True); torch.autograd.grad(g.sum(), dy)
  // (PyTorch has NaN for var without Bessel's correction, which divides 0 by 0 there.)
  struct Reduction {
    std::string name;
    Tensor (*f)(const Tensor& x);
  };
  const Reduction reductions[] = {
      {"sum", [](const Tensor& x) { return sum(x, {0}); }},
      {"mean", [](const Tensor& x) { return mean(x, {0}); }},
      {"prod", [](const Tensor& x) { return prod(x, {0}); }},
      {"var", [](const Tensor& x) { return var(x, {0}); }},
      {"var biased", [](const Tensor& x) { return var(x, {0}, {.unbiased = false}); }},
      {"norm", [](const Tensor& x) { return norm(x, {0}); }},
      {"logsumexp", [](const Tensor& x) { return logsumexp(x, {0}); }},
  };
  for (const Reduction& r : reductions) {
    CAPTURE(r.name);
    const Tensor x = zeros({0, 2}, {.dtype = kF64, .requires_grad = true});
    const Tensor dy = ones({2}, {.dtype = kF64, .requires_grad = true});
    const Tensor dx = grad({r.f(x)}, {x}, {.grad_outputs = {dy}, .create_graph = true})[0];
    CHECK(dx.shape() == Shape{0, 2});
    CHECK(difference(grad({dx.sum()}, {dy})[0], {0, 0}, 0) == "");
  }
}
