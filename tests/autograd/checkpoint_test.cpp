// Checkpoints: the bits of the gradients, random numbers, Autocast, nesting, memory, errors.
#include "lathe/autograd/checkpoint.h"

#include <doctest/doctest.h>

#include <functional>
#include <optional>
#include <stdexcept>
#include <utility>

#include "../cuda_case.h"
#include "lathe/autograd/autocast.h"
#include "lathe/autograd/engine.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/autograd/gradcheck.h"
#include "lathe/core/memory/host_allocator.h"
#include "lathe/core/random/generator.h"
#include "lathe/core/random/random_state.h"
#include "lathe/ops/batch_norm.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/conv2d.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/dropout.h"
#include "lathe/ops/inplace.h"
#include "lathe/ops/matmul.h"
#include "lathe/ops/random.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"

using namespace lathe;
using doctest::Contains;

namespace {

using Function = std::function<Tensors(const Tensors&)>;

Tensors plain(const Function& f, const Tensors& inputs) { return f(inputs); }
Tensors saving(const Function& f, const Tensors& inputs) { return checkpoint(f, inputs); }
constexpr auto kWays = {plain, saving};

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.to_vector<double>() == b.to_vector<double>();
}

/// A network of a few blocks with dropout and parameters that f refers to.
struct Blocks {
  Tensors weights;
  int64_t width;
  Device device;

  Blocks(int64_t depth, int64_t features, Device on = kCPU) : width(features), device(on) {
    Generator generator(5);
    for (int64_t i = 0; i < depth; ++i) {
      const Tensor w = randn({width, width}, {}, &generator) * 0.3;
      weights.push_back(w.to(device).detach().requires_grad_());
    }
  }
  Tensor block(const Tensor& x, size_t i) const {
    return dropout(tanh(matmul(x, weights[i])), {.p = 0.25}) + x * weights[i][0];
  }
};

/// The loss, and the gradients of x, of the weights and of the way, in that order.
template <class Way>
Tensors train(const Blocks& net, Way way) {
  manual_seed(3);
  const Tensor x = randn({8, net.width}).to(net.device).detach().requires_grad_();
  Tensor h = x * 2;
  for (size_t i = 0; i < net.weights.size(); ++i) {
    h = way([&net, i](const Tensors& in) { return Tensors{net.block(in[0], i)}; }, Tensors{h})[0];
  }
  const Tensor loss = h.square().mean();
  loss.backward();
  Tensors out{loss, x.grad(), rand({4})};  // the last one: the state after the pass
  for (const Tensor& w : net.weights) {
    out.push_back(w.grad());
    w.set_grad({});
  }
  return out;
}

void check_same(const Tensors& a, const Tensors& b) {
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    INFO("tensor " << i);
    CHECK(same_bits(a[i], b[i]));
  }
}

}  // namespace

TEST_CASE("checkpoint: loss, gradients and random numbers have the bits of the plain program") {
  const Blocks net(4, 16);
  check_same(train(net, plain), train(net, saving));
}

TEST_CASE("checkpoint: the same on a GPU" * test::cuda_case()) {
  const Blocks net(3, 8, Device("cuda:0"));
  check_same(train(net, plain), train(net, saving));
}

TEST_CASE("checkpoint: a convolution that leaves moments to a batch norm, in it or behind it") {
  const auto run = [](Tensors (*way)(const Function&, const Tensors&), bool norm_inside,
                      bool frozen) {
    manual_seed(2);
    const Tensor x = randn({4, 16, 16, 16}).contiguous(MemoryFormat::kChannelsLast);
    const Tensor w = randn({16, 16, 3, 3}).requires_grad_();
    const Tensor filters = randn({16, 16, 3, 3});
    const auto norm = [](const Tensor& y) {
      return batch_norm(y, {}, {}, {}, {}, {.training = true});
    };
    const Function f = [&](const Tensors& t) {
      Tensor y = conv2d(t[0], t[1], {.pad = 1});
      if (frozen) y = conv2d(relu(y), filters, {.pad = 1});
      return Tensors{norm_inside ? norm(y) : y};
    };
    const Tensor y = way(f, {x, w})[0], z = norm_inside ? y : norm(y);
    (z * z * z).sum().backward();
    return std::pair(z.detach(), w.grad());
  };
  for (const bool norm_inside : {true, false}) {
    for (const bool frozen : {true, false}) {
      CAPTURE(norm_inside);
      CAPTURE(frozen);
      const auto expected = run(plain, norm_inside, frozen), got = run(saving, norm_inside, frozen);
      CHECK(same_bits(got.first, expected.first));
      CHECK(same_bits(got.second, expected.second));
    }
  }
}

TEST_CASE("checkpoint: nested ones too") {
  const Blocks net(4, 8);
  std::optional<Tensors> expected;
  for (const auto& outer : kWays) {
    for (const auto& inner : kWays) {
      manual_seed(1);
      const Tensor x = randn({4, 8}).requires_grad_();
      const auto half = [&](size_t first) {
        return [&, first](const Tensors& in) {
          Tensors h = in;
          for (size_t i = first; i < first + 2; ++i) {
            h = inner([&net, i](const Tensors& t) { return Tensors{net.block(t[0], i)}; }, h);
          }
          return h;
        };
      };
      const Tensors y = outer(half(2), outer(half(0), {x}));
      y[0].square().sum().backward();
      Tensors got{y[0].detach(), x.grad()};
      for (const Tensor& w : net.weights) {
        got.push_back(w.grad());
        w.set_grad({});
      }
      if (expected) check_same(got, *expected);
      expected = got;
    }
  }
}

TEST_CASE("checkpoint: parameters get gradients where no input requires one") {
  const Tensor w = tensor({2.f, 3.f}).requires_grad_(), x = tensor({5.f, 7.f});
  const Tensor y = checkpoint([&](const Tensors& in) { return in[0] * w; }, {x});
  CHECK(y.grad_fn() == "checkpoint");
  y.sum().backward();
  CHECK(w.grad().to_vector<float>() == std::vector<float>{5, 7});
  CHECK(same_bits(
      grad({checkpoint([&](const Tensors& in) { return in[0] * w; }, {x}).sum()}, {w})[0], x));
  CHECK_FALSE(x.requires_grad());
}

TEST_CASE("checkpoint: nothing is recorded where nothing requires a gradient") {
  const Tensor w = tensor({2.f}).requires_grad_(), x = tensor({5.f});
  const auto f = [&](const Tensors& in) { return in[0] * 2; };
  CHECK_FALSE(checkpoint(f, {x}).requires_grad());
  const auto looks = [&](const Tensors& in) {
    const NoGrad off;
    return in[0] * w;
  };
  CHECK_FALSE(checkpoint(looks, {x}).requires_grad());
  const NoGrad off;
  CHECK_FALSE(checkpoint(f, {w}).requires_grad());
}

TEST_CASE("checkpoint: several outputs, of which some are inputs, constants or unused") {
  const Tensor x = tensor({1.f, 2.f}).requires_grad_(), constant = tensor({4.f, 4.f});
  const auto f = [&](const Tensors& in) {
    return Tensors{in[0] * 3, in[0], constant, in[0].square(), tensor({7})};
  };
  const Tensors ys = checkpoint(f, {x});
  REQUIRE(ys.size() == 5);
  CHECK(ys[1].is_same(x));
  CHECK_FALSE(constant.requires_grad());
  (ys[0] * ys[1] + ys[2]).sum().backward();  // 3 x^2 + 4
  CHECK(x.grad().to_vector<float>() == std::vector<float>{6, 12});
}

TEST_CASE("checkpoint: derivatives of derivatives are those of the function") {
  const auto f = [](const Tensors& in) {
    return checkpoint([](const Tensors& t) { return tanh(t[0]) * t[1] * t[0]; }, in).square();
  };
  const Tensors inputs{randn({3}, {.dtype = kF64}), randn({3}, {.dtype = kF64})};
  const GradReport once = gradcheck(f, inputs), twice = gradgradcheck(f, inputs);
  CHECK_MESSAGE(once.ok, once.text);
  CHECK_MESSAGE(twice.ok, twice.text);
}

TEST_CASE("checkpoint: the second call runs under the Autocast scopes of the first one") {
  const Tensor w = randn({8, 8}).requires_grad_(), x = randn({8, 8}).requires_grad_();
  std::vector<DType> seen;
  const auto f = [&](const Tensors& in) {
    const Tensor y = matmul(in[0], w);
    seen.push_back(y.dtype());
    return Tensors{y};
  };
  std::vector<Tensors> gradients;
  for (const auto& way : kWays) {
    Tensor y;
    {
      const Autocast half(kCPU, kBF16);
      y = way(f, {x})[0];
    }
    const Autocast other(kCPU, kF16);
    gradients.push_back(grad({y.square().sum()}, {x, w}));
    CHECK(amp::autocast_dtype(kCPU) == kF16);
  }
  CHECK(seen == std::vector<DType>{kBF16, kBF16, kBF16});
  check_same(gradients[0], gradients[1]);
}

TEST_CASE("checkpoint: hooks, retain_grad and retain_graph work as without it") {
  std::vector<Tensors> gradients;
  for (const auto& way : kWays) {
    const Tensor x = tensor({1.f, 2.f}).requires_grad_(), w = tensor({3.f, 4.f}).requires_grad_();
    int calls = 0;
    w.register_hook([&](const Tensor& g) {
      ++calls;
      return g * 2;
    });
    const Tensor h = x * 1;
    const Tensor y = way([&](const Tensors& in) { return Tensors{in[0] * w}; }, {h})[0];
    h.retain_grad();
    y.retain_grad();
    const Tensor loss = y.square().sum();
    loss.backward({.retain_graph = true});
    loss.backward();
    CHECK(calls == 2);
    CHECK_THROWS_WITH_AS(loss.backward(), Contains("freed by an earlier backward pass"),
                         StateError);
    gradients.push_back({x.grad(), w.grad(), h.grad(), y.grad()});
  }
  check_same(gradients[0], gradients[1]);
}

TEST_CASE("checkpoint: what the ops save is gone between the passes") {
  const Tensor x = rand({1 << 16}).requires_grad_();
  const size_t tensor_bytes = static_cast<size_t>(x.bytes());
  const auto f = [](const Tensors& in) {
    Tensor h = in[0];
    for (int i = 0; i < 8; ++i) h = tanh(h);  // saves its output
    return Tensors{h};
  };
  std::vector<size_t> held;
  for (const auto& way : kWays) {
    const size_t before = host_allocator().stats().allocated_bytes;
    const Tensor y = way(f, {x})[0];
    held.push_back((host_allocator().stats().allocated_bytes - before) / tensor_bytes);
    y.sum().backward();
    x.set_grad({});
  }
  CHECK(held[0] == 8);
  CHECK(held[1] == 1);
  const size_t before = host_allocator().stats().allocated_bytes;
  {
    Tensor h = x * 1;
    const Tensor y = checkpoint(f, {h})[0];
    h = Tensor();
    y.sum().backward();
    x.set_grad({});
    CHECK(host_allocator().stats().allocated_bytes - before == tensor_bytes);  // y alone
  }
  checkpoint(f, {x})[0].sum().backward({.retain_graph = true});
  x.set_grad({});
  CHECK(host_allocator().stats().allocated_bytes == before);
}

TEST_CASE("checkpoint: a second call that differs, or an input that was written, is an error") {
  const Tensor x = tensor({1.f, 2.f}).requires_grad_();
  int call = 0;
  const Tensor y = checkpoint(
      [&](const Tensors& in) { return ++call == 1 ? in[0] * 2 : (in[0] * 2).sum(); }, {x});
  CHECK_THROWS_WITH_AS(
      y.sum().backward(),
      Contains("returned f32[2]@cpu as output 0, and f32[]@cpu when it was called again"),
      StateError);
  call = 0;
  const Tensors ys = checkpoint(
      [&](const Tensors& in) { return Tensors(static_cast<size_t>(++call), in[0] * 2); }, {x});
  CHECK_THROWS_WITH_AS(ys[0].sum().backward(),
                       Contains("returned 1 tensors, and 2 when it was called again"), StateError);

  const Tensor h = x * 1;
  const Tensor z = checkpoint([](const Tensors& in) { return in[0] * 2; }, {h});
  h.add_(1.0);
  CHECK_THROWS_WITH_AS(z.sum().backward(), Contains("a tensor that checkpoint saved was modified"),
                       StateError);
  CHECK_FALSE(x.grad().defined());
}

TEST_CASE("checkpoint: a view of an input stays a view") {
  const Tensor x = tensor({1.f, 2.f}).requires_grad_(), h = x * 1;
  const Tensor y = checkpoint([](const Tensors& in) { return in[0].slice(0, 0, 1); }, {h});
  CHECK(y.shares_storage(h));
  y.sum().backward({.retain_graph = true});
  CHECK(x.grad().to_vector<float>() == std::vector<float>{1, 0});
  CHECK(y.impl().base == h.handle());
}

TEST_CASE("checkpoint: what f throws arrives, and the generators go on as before") {
  const Tensor x = tensor({1.f}).requires_grad_();
  const auto fail_at = [](int n) {
    return [call = 0, n](const Tensors& in) mutable {
      const Tensor y = in[0] * rand({1});
      if (++call == n) throw std::runtime_error("no");
      return y;
    };
  };
  CHECK_THROWS_WITH(checkpoint(fail_at(1), {x}), Contains("no"));
  CHECK(grad_enabled());
  manual_seed(9);
  const Tensor y = checkpoint(fail_at(2), {x});
  const Generator::State before = default_generator().state();
  CHECK_THROWS_WITH(y.backward(), Contains("no"));
  CHECK(default_generator().state() == before);
  CHECK_FALSE(x.grad().defined());
}
