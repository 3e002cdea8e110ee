// The first pass of a batch norm's gradient in the convolution that computes the norm's dy: its
// values, who sees what of the gradient, and where the passes stay two.
#include <doctest/doctest.h>

#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <vector>

#include "lathe/lathe.h"
#include "lathe/ops/batch_norm.h"
#include "lathe/ops/conv/conv2d_passes_cpu.h"
#include "lathe/tests/threads_scope.h"

using namespace lathe;
using namespace lathe::test;

namespace {

/// A batch norm of x, the sum with a residual if it has one, relu, and a convolution.
struct Net {
  std::string name;
  Shape x, w;
  bool residual = false, relu = true;
  Conv2dOptions conv = {};
};
const Net kNets[] = {
    {"1x1", {3, 32, 9, 7}, {48, 32, 1, 1}},
    {"1x1, a sum", {3, 80, 9, 7}, {16, 80, 1, 1}, true},
    {"1x1, no relu", {2, 16, 20, 20}, {16, 16, 1, 1}, false, false},
    {"1x1, large filters, a sum", {2, 640, 5, 5}, {448, 640, 1, 1}, true},
    {"3x3", {4, 16, 8, 8}, {16, 16, 3, 3}, false, true, {.pad = 1}},
    {"3x3, no relu", {4, 24, 9, 7}, {40, 24, 3, 3}, false, false, {.pad = 1}},
    {"3x3, two blocks of channels", {3, 136, 9, 11}, {72, 136, 3, 3}, false, true, {.pad = 1}},
    {"3x3, stride 2", {13, 32, 33, 31}, {40, 32, 3, 3}, false, true, {.stride = 2, .pad = 1}},
};

struct Problem {
  explicit Problem(const Net& of)
      : net(of),
        x((randn(of.x) * 1.5 + randn({1, of.x[1], 1, 1})).contiguous(kChannelsLast)),
        residual(randn(of.x).contiguous(kChannelsLast)),
        weight(rand({of.x[1]}) + 0.5),
        bias(randn({of.x[1]})),
        w(randn(of.w).contiguous(kChannelsLast)),
        dz(randn(conv2d(x, w, of.conv).shape()).contiguous(kChannelsLast)) {}

  Tensors leaves() const { return {x, residual, weight, bias, w}; }
  Tensor norm() const {
    for (const Tensor& t : leaves()) {
      if (!t.requires_grad()) t.requires_grad_();
      t.set_grad({});
    }
    const Tensor none;
    const BatchNormOptions training{.training = true};
    if (net.residual) {
      return batch_norm_add_relu(x, residual, weight, bias, none, none, training);
    }
    return (net.relu ? batch_norm_relu : batch_norm)(x, weight, bias, none, none, training);
  }
  /// Of the leaves that have one.
  Tensors grads() const {
    Tensors all;
    for (const Tensor& t : leaves()) {
      if (t.grad().defined()) all.push_back(t.grad().contiguous());
    }
    return all;
  }

  Net net;
  Tensor x, residual, weight, bias, w, dz;
};

double relative_error(const Tensor& got, const Tensor& want) {
  const Tensor g = got.to(kF64), w = want.to(kF64);
  return (g - w).abs().max().item<double>() / w.abs().max().item<double>();
}
void check_close(const Tensors& got, const Tensors& want) {
  REQUIRE(got.size() == want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    CAPTURE(i);
    CHECK(relative_error(got[i], want[i]) <= 1e-5);
  }
}
/// Equal NaN would be different; there are none.
void check_same_bits(const Tensors& a, const Tensors& b) {
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    CAPTURE(i);
    CHECK(a[i].to_vector<float>() == b[i].to_vector<float>());
  }
}

/// Where the gradient of y is seen, the norm makes both of its passes itself.
Tensor looked_at(const Tensor& y) {
  y.register_hook([](const Tensor&) { return Tensor(); });
  return y;
}

/// The gradient of y by the kernels alone, and what becomes of it: {g, sums} as the convolution
/// leaves them.
std::optional<cpu::NormedInputGrad> by_kernel(const Problem& p, const Tensor& y,
                                              const Tensor& second) {
  const NoGrad off;
  const Conv2dGeometry g = conv2d_geometry("conv2d", p.net.x, p.net.w, p.net.conv);
  BatchNormForm form = p.net.relu ? BatchNormForm::kRelu : BatchNormForm::kPlain;
  if (p.net.residual) form = BatchNormForm::kAddRelu;
  const BatchNormStats stats = cpu::batch_norm_stats(p.x, 1e-5);
  const BatchNormCall call{form, p.x, stats.mean, stats.invstd, p.weight, p.bias, true};
  return cpu::conv2d_backward_input_through_norm(
      g, p.dz, p.w, {call, p.net.residual ? y.detach() : Tensor(), second});
}

}  // namespace

TEST_CASE("norm gradient: a convolution does the first pass") {
  for (const Net& net : kNets) {
    CAPTURE(net.name);
    const Problem p(net);
    const Tensor y = p.norm();
    const Tensor second = net.residual ? randn(net.x).contiguous(kChannelsLast) : Tensor();
    const auto got = by_kernel(p, y, second);
    REQUIRE(got);
    // In f64, by definition.
    const NoGrad off;
    const Tensor x = p.x.to(kF64);
    const Tensor t = x - x.mean({0, 2, 3}, true);
    Tensor dy = conv2d_input_grad(p.dz.to(kF64), p.w.to(kF64), net.x, net.conv);
    if (second.defined()) dy = dy + second.to(kF64);
    const Tensor g = net.residual || net.relu ? where(y.to(kF64) > 0, dy, zeros_like(dy)) : dy;
    check_close({got->g}, {g});
    check_close({got->sums}, {stack({g.sum({0, 2, 3}), (g * t).sum({0, 2, 3})}, 0)});
  }
}

TEST_CASE("norm gradient: the ops' gradients are those of separate passes") {
  for (const Net& net : kNets) {
    CAPTURE(net.name);
    const Problem p(net);
    const auto gradients = [&](bool seen, bool others) {
      const Tensor y = seen ? looked_at(p.norm()) : p.norm();
      const Tensor before = others ? y * 0.5 : Tensor();  // recorded before: comes later
      Tensor loss = (conv2d(y, p.w, net.conv) * p.dz).sum();
      if (others) loss = loss + (before * p.residual.detach()).sum() + y.square().sum();
      loss.backward();
      return p.grads();
    };
    for (const bool others : {false, true}) {
      CAPTURE(others);
      check_close(gradients(false, others), gradients(true, others));
    }
  }
}

TEST_CASE("norm gradient: the first pass is used where nobody else sees the gradient") {
  const Problem p(kNets[1]);
  const auto dweight = [&](const Tensor& y) {
    conv2d(y, p.w).backward(p.dz);
    return p.weight.grad().clone();
  };
  const Tensor y = p.norm();
  const auto kernel = by_kernel(p, y, {});
  REQUIRE(kernel);
  const NoGrad off;
  const BatchNormStats stats = cpu::batch_norm_stats(p.x, 1e-5);
  const Tensor want = (kernel->sums.select(0, 1) * stats.invstd.to(kF64)).to(kF32);
  {
    const EnableGrad on;
    check_same_bits({dweight(y)}, {want});
    // Two sums of the same numbers in other orders.
    CHECK(dweight(looked_at(p.norm())).to_vector<float>() != want.to_vector<float>());
  }
}

TEST_CASE("norm gradient: hooks, retain_grad() and grad() see all of it, before relu") {
  const Problem p(kNets[1]);
  Tensor want;
  {
    const NoGrad off;
    want = conv2d_input_grad(p.dz, p.w, p.net.x) + 2;
  }
  const auto loss = [&](const Tensor& y) { return (conv2d(y, p.w) * p.dz).sum() + 2 * y.sum(); };
  Tensor seen;
  Tensor y = p.norm();
  y.register_hook([&](const Tensor& g) { return seen = g.clone(), Tensor(); });
  loss(y).backward();
  check_close({seen}, {want});
  y = p.norm();
  y.retain_grad();
  loss(y).backward();
  check_close({y.grad()}, {want});
  y = p.norm();
  check_close(grad({loss(y)}, {y}), {want});
}

TEST_CASE("norm gradient: again, and of gradients") {
  for (const Net& net : kNets) {
    CAPTURE(net.name);
    const Problem p(net);
    const Tensor z = conv2d(p.norm(), p.w, net.conv);
    z.backward({.gradient = p.dz, .retain_graph = true});
    Tensors first;
    for (const Tensor& g : p.grads()) first.push_back(g.clone());
    for (const Tensor& t : p.leaves()) t.set_grad({});
    z.backward(p.dz);
    check_same_bits(p.grads(), first);
    const Tensor again = conv2d(p.norm(), p.w, net.conv);
    const Tensors recorded = grad({again}, {p.x}, {.grad_outputs = {p.dz}, .create_graph = true});
    CHECK(recorded[0].requires_grad());
    check_close(recorded, {first[0]});
  }
}

TEST_CASE("norm gradient: any number of threads gives the same bits") {
  for (const Net& net : kNets) {
    CAPTURE(net.name);
    const Problem p(net);
    const auto gradients = [&](int threads) {
      const ThreadsScope scope(threads);
      conv2d(p.norm(), p.w, net.conv).backward(p.dz);
      return p.grads();
    };
    const Tensors one = gradients(1);
    for (const int threads : {2, 3, 7}) check_same_bits(gradients(threads), one);
  }
}

TEST_CASE("norm gradient: a tensor that was written since is refused") {
  const Problem p(kNets[0]);
  p.weight.requires_grad_();
  const Tensor x = p.x * 1;
  const Tensor y = batch_norm_relu(x, p.weight, p.bias, {}, {}, {.training = true});
  p.w.requires_grad_();
  const Tensor z = conv2d(y, p.w);
  {
    const NoGrad off;
    x.add_(1);
  }
  CHECK_THROWS_AS(z.backward(p.dz), StateError);
  CHECK(!p.w.grad().defined());
}

TEST_CASE("norm gradient: what the kernels do not take") {
  Problem p({"1x1, stride 2", {3, 32, 9, 7}, {48, 32, 1, 1}, false, true, {.stride = 2}});
  CHECK(!by_kernel(p, p.norm(), {}));
  p = Problem({"3x3, a sum", {4, 16, 8, 8}, {16, 16, 3, 3}, true, true, {.pad = 1}});
  CHECK(!by_kernel(p, p.norm(), {}));
  p = Problem(kNets[0]);
  p.dz = p.dz.contiguous(kContiguous);
  CHECK(!by_kernel(p, p.norm(), {}));
}
