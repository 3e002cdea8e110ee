// functional_call: other parameters for one call, their gradients, and the module afterwards.
#include "lathe/nn/functional_call.h"

#include <doctest/doctest.h>

#include <stdexcept>

#include "lathe/autograd/autocast.h"
#include "lathe/autograd/checkpoint.h"
#include "lathe/autograd/engine.h"
#include "lathe/autograd/functional.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/autograd/gradcheck.h"
#include "lathe/core/memory/host_allocator.h"
#include "lathe/nn/batch_norm.h"
#include "lathe/nn/linear.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/inplace.h"
#include "lathe/ops/random.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"

using namespace lathe;
using doctest::Contains;

namespace {

struct Net : nn::Module {
  using Module::Module;
  nn::Linear first{*this, "first", 3, 4};
  nn::BatchNorm1d bn{*this, "bn", 4};
  nn::Linear last{*this, "last", 4, 2};
  bool throws = false;

  Tensor forward(const Tensor& x) override {
    const Tensor h = bn(first(x)).tanh();
    if (throws) throw std::runtime_error("stop");
    return last(h);
  }
};

std::vector<double> values(const Tensor& t) { return t.to_vector<double>(); }

/// Copies with gradients of their own.
nn::Module::Named<Tensor> copies(const nn::Module& module) {
  nn::Module::Named<Tensor> out = module.named_parameters();
  for (auto& [name, t] : out) t = t.detach().clone().requires_grad_();
  return out;
}

}  // namespace

TEST_CASE("functional_call: equals a module with those parameters, values and gradients") {
  Net net, other;
  const Tensor x = randn({5, 3});
  const nn::Module::Named<Tensor> tensors = copies(other);
  const Tensor expected = other(x);
  expected.square().sum().backward();
  const StateDict before = net.state_dict().clone();

  const Tensor y = nn::functional_call(net, tensors, x);
  CHECK(values(y) == values(expected));
  y.square().sum().backward();
  const auto parameters = other.named_parameters();
  for (size_t i = 0; i < tensors.size(); ++i) {
    INFO(tensors[i].first);
    CHECK(values(tensors[i].second.grad()) == values(parameters[i].second.grad()));
  }
  for (const auto& [name, p] : net.named_parameters()) {
    INFO(name);
    CHECK_FALSE(p.grad().defined());
    CHECK(values(p) == values(before.at(name)));
    CHECK(p.is_leaf());
    CHECK(p.requires_grad());
  }
  CHECK(values(net(x)) != values(expected));
}

TEST_CASE("functional_call: tensors with a history pass their gradients on, twice") {
  Net net;
  net.to(kF64);
  const Tensor x = randn({5, 3}, {.dtype = kF64});
  const auto f = [&](const Tensors& in) {
    const Tensor w = in[0] * 2 + 1;
    return nn::functional_call(net, {{"first.weight", w}, {"last.bias", in[1].exp()}}, x).square();
  };
  const Tensors inputs{randn({4, 3}, {.dtype = kF64}), randn({2}, {.dtype = kF64})};
  const GradReport once = gradcheck(f, inputs), twice = gradgradcheck(f, inputs);
  CHECK_MESSAGE(once.ok, once.text);
  CHECK_MESSAGE(twice.ok, twice.text);
}

TEST_CASE("functional_call: the Hessian of a loss by one parameter") {
  nn::Linear net(2, 1, {.bias = false});
  const Tensor x = tensor({{1.f, 2.f}, {3.f, 4.f}});
  const auto loss = [&](const Tensors& in) {
    return nn::functional_call(net, {{"weight", in[0]}}, x).square().sum();
  };
  const Tensor h = hessian(loss, {net.weight.detach()})[0][0];  // 2 x^T x
  CHECK(values(h) == std::vector<double>{20, 28, 28, 40});
}

TEST_CASE("functional_call: buffers too; what the module writes goes into what was given") {
  Net net;
  const Tensor x = randn({5, 3}), mean = zeros({4});
  const std::vector<double> before = values(net.state_dict().at("bn.running_mean"));
  const uint32_t version = mean.version();
  nn::functional_call(net, {{"bn.running_mean", mean}}, x);
  CHECK(values(net.state_dict().at("bn.running_mean")) == before);
  CHECK(values(mean) != std::vector<double>(4, 0));
  CHECK(mean.version() > version);
}

TEST_CASE("functional_call: under Autocast and under NoGrad") {
  Net net;
  const nn::Module::Named<Tensor> tensors = copies(net);
  const Tensor x = randn({5, 3});
  {
    const Autocast half(kCPU, kBF16);
    net(x);  // keeps casts of the module's own parameters
    nn::functional_call(net, tensors, x).sum().backward();
  }
  CHECK(tensors[0].second.grad().defined());
  CHECK_FALSE(net.first.weight.grad().defined());
  {
    const Autocast half(kCPU, kBF16);
    net(x);
    const Tensor w = net.first.weight.detach().requires_grad_();  // the memory of a kept cast
    nn::functional_call(net, {{"first.weight", w}}, x).sum().backward();
    CHECK(w.grad().defined());
    CHECK_FALSE(net.first.weight.grad().defined());
  }
  const NoGrad off;
  CHECK_FALSE(nn::functional_call(net, tensors, x).requires_grad());
}

TEST_CASE(
    "functional_call: the module is as before when it throws, and when an argument is wrong") {
  Net net;
  const std::vector<double> before = values(net.first.weight);
  const Tensor w = zeros({4, 3}), x = randn({5, 3});
  const auto call = [&](const nn::Module::Named<Tensor>& tensors) {
    return nn::functional_call(net, tensors, x);
  };
  net.throws = true;
  CHECK_THROWS_WITH(call({{"first.weight", w}}), Contains("stop"));
  net.throws = false;
  CHECK_THROWS_WITH_AS(call({{"first.weight", w}, {"none", w}}),
                       Contains("Net has no parameter or buffer \"none\""), ValueError);
  CHECK_THROWS_WITH_AS(call({{"first.weight", w}, {"first.weight", w}}),
                       Contains("\"first.weight\" comes twice"), ValueError);
  CHECK_THROWS_WITH_AS(call({{"first.weight", Tensor()}}), Contains("is undefined"), ValueError);
  CHECK_THROWS_WITH_AS(call({{"first.bias", net.bn.bias}}),
                       Contains("\"bn.bias\" cannot stand for \"first.bias\""), ValueError);
  CHECK_THROWS_WITH_AS(call({{"first.weight", w}, {"first.bias", w}}),
                       Contains("a tensor f32[4,3]@cpu cannot stand for f32[4]@cpu"), ShapeError);
  CHECK(values(net.first.weight) == before);
  CHECK(net.first.weight.is_leaf());
  CHECK(values(call({{"first.weight", net.first.weight}})) == values(net(x)));
}

TEST_CASE("functional_call: a module that returns a parameter returns the other tensor") {
  struct Constant : nn::Module {
    Tensor value = parameter("value", ones({2}));
    Tensor forward(const Tensor&) override { return value; }
  } net;
  const Tensor w = tensor({3.f, 4.f}).requires_grad_();
  const Tensor y = nn::functional_call(net, {{"value", w}}, w);
  CHECK(values(y) == std::vector<double>{3, 4});
  (y * y).sum().backward();
  CHECK(values(w.grad()) == std::vector<double>{6, 8});
  CHECK_FALSE(net.value.grad().defined());
}

TEST_CASE("functional_call: a view that a module returns is one of the other tensor") {
  struct Part : nn::Module {
    Tensor value = parameter("value", ones({3}));
    Tensor forward(const Tensor&) override { return value.slice(0, 0, 1); }
  } net;
  const Tensor w = tensor({3.f, 4.f, 5.f}).requires_grad_(), h = w * 1;
  const Tensor y = nn::functional_call(net, {{"value", h}}, w);
  y.mul_(10.0);
  CHECK(values(h) == std::vector<double>{30, 4, 5});
  CHECK(values(net.value) == std::vector<double>{1, 1, 1});
  h.sum().backward();
  CHECK(values(w.grad()) == std::vector<double>{10, 1, 1});
}

TEST_CASE("functional_call: a checkpoint in the module sees the other tensors in both its calls") {
  struct Saving : nn::Module {
    nn::Linear fc{*this, "fc", 3, 3};
    Tensor forward(const Tensor& x) override {
      return checkpoint([this](const Tensors& in) { return fc(in[0]).tanh(); }, {x});
    }
  } net;
  net.to(kF64);
  const Tensor x = randn({2, 3}, {.dtype = kF64});
  const auto f = [&](const Tensors& in) {
    return nn::functional_call(net, {{"fc.weight", in[0] * 2}, {"fc.bias", in[1]}}, x).square();
  };
  const Tensors inputs{randn({3, 3}, {.dtype = kF64}), randn({3}, {.dtype = kF64})};
  const GradReport once = gradcheck(f, inputs), twice = gradgradcheck(f, inputs);
  CHECK_MESSAGE(once.ok, once.text);
  CHECK_MESSAGE(twice.ok, twice.text);
  CHECK_FALSE(net.fc.weight.grad().defined());
  CHECK_FALSE(net.fc.weight.impl().lent);

  const Tensor w = (inputs[0] * 1).requires_grad_(), h = w * 1;
  const Tensor y = nn::functional_call(net, {{"fc.weight", h}}, x).sum();
  h.mul_(2.0);
  CHECK_THROWS_WITH_AS(y.backward(), Contains("modified by an in-place operation"), StateError);
}
