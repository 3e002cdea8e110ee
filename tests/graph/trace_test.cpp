// trace: what a graph holds of a program, and what is refused by name and place.
#include "lathe/graph/trace.h"

#include <doctest/doctest.h>

#include <array>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "lathe/autograd/autocast.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/graph/op_table.h"
#include "lathe/nn/batch_norm.h"
#include "lathe/nn/dropout.h"
#include "lathe/nn/linear.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/dropout.h"
#include "lathe/ops/inplace.h"
#include "lathe/ops/isclose.h"
#include "lathe/ops/losses/losses.h"
#include "lathe/ops/matmul.h"
#include "lathe/ops/products.h"
#include "lathe/ops/random.h"
#include "lathe/ops/recurrent.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/sort.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"
#include "lathe/ops/where.h"

using namespace lathe;
using doctest::Contains;

namespace {

Tensor example() { return arange(6, {.dtype = kF32}).reshape({2, 3}); }

jit::Graph traced(const std::function<Tensor(const Tensor&)>& f,
                  const jit::TraceOptions& options = {}) {
  return jit::trace([&f](const Tensors& x) { return Tensors{f(x[0])}; }, {example()}, options);
}

void check_refused(Tensor (*f)(const Tensor&), const char* what) {
  CHECK_THROWS_WITH_AS(traced(f), Contains(what), jit::TraceError);
}

struct Net : nn::Module {
  nn::Linear fc{*this, "fc", 3, 2};
  nn::BatchNorm1d bn{*this, "bn", 2};
  nn::Dropout dropout{*this, "dropout", 0.5};
  Tensor forward(const Tensor& x) override { return dropout(relu(bn(fc(x)))); }
};

struct Shifted : nn::Module {
  nn::Parameter c0 = parameter("c0", ones({3}));
  Tensor forward(const Tensor& x) override { return mul(add(x, c0), 2); }
};

}  // namespace

TEST_CASE("trace: the text of a small model") {
  Net net;
  net.eval();
  CHECK(jit::trace(net, example()).text() ==
        "lathe graph 1\n"
        "input %x: f32[N,3]\n"
        "param @fc.weight: f32[2,3]\n"
        "param @fc.bias: f32[2]\n"
        "param @bn.weight: f32[2]\n"
        "param @bn.bias: f32[2]\n"
        "buffer @bn.running_mean: f32[2]\n"
        "buffer @bn.running_var: f32[2]\n"
        "%0: f32[N,2] = linear(%x, @fc.weight, @fc.bias)  # Net.fc\n"
        "%1: f32[N,2] = batch_norm(%0, @bn.weight, @bn.bias, @bn.running_mean, @bn.running_var, "
        "training=false, eps=1e-05)  # Net.bn\n"
        "%2: f32[N,2] = relu(%1)  # Net\n"
        "output %2\n");
}

TEST_CASE("trace: a constant does not take the name of a parameter") {
  Shifted model;
  const jit::Graph graph = jit::trace(model, example());
  CHECK(graph.text().find("const @c0_: f32[] = 2.0\n") != std::string::npos);
  CHECK(jit::parse(graph.text()).text() == graph.text());
  CHECK(graph.state().size() == 2);
}

TEST_CASE("trace: a name that the text cannot hold is refused") {
  struct OneName : nn::Module {
    explicit OneName(const std::string& name) : w(parameter(name, ones({3}))) {}
    Tensor forward(const Tensor& x) override { return add(x, w); }
    nn::Parameter w;
  };
  for (const char* name : {"a weight", "w:0", "w\nv"}) {
    OneName model(name);
    CHECK_THROWS_WITH_AS(jit::trace(model, example()), Contains("cannot hold the name"),
                         jit::TraceError);
  }
  OneName model("w-0/1_a");
  CHECK(jit::parse(jit::trace(model, example()).text()).values.size() == 3);
}

TEST_CASE("trace: numbers are constants, multiples of the batch are sizes") {
  const jit::Graph graph = traced([](const Tensor& x) {
    return mul(reshape(x, {x.dim(0) * 3}), 0.1).reshape({3, x.dim(0)}) + zeros({1, 1});
  });
  CHECK(graph.text() ==
        "lathe graph 1\n"
        "input %x: f32[N,3]\n"
        "const @c0: f32[] = 0.1\n"
        "const @c1: f32[1,1] = 0.0\n"
        "%0: f32[3*N] = reshape(%x, shape=[3*N])\n"
        "%1: f32[3*N] = mul(%0, @c0)\n"
        "%2: f32[3,N] = reshape(%1, shape=[3,N])\n"
        "%3: f32[3,N] = add(%2, @c1)\n"
        "output %3\n");
  const Tensor x = arange(15, {.dtype = kF32}).reshape({5, 3});
  CHECK(equal(graph(x), mul(x.reshape({3, 5}), 0.1)));
}

TEST_CASE("trace: ops that are made of others, several inputs and outputs, detach") {
  const auto f = [](const Tensors& x) {
    return Tensors{huber_loss(x[0], x[1]), add(x[0].detach(), x[1])};
  };
  const Tensor other = example() * 3;
  const jit::Graph graph = jit::trace(f, {example(), other});
  const Tensors results = graph.run({other, example()}), expected = f({other, example()});
  CHECK(equal(results[0], expected[0]));
  CHECK(equal(results[1], expected[1]));
  CHECK_THROWS_WITH_AS(graph(other), Contains("2 inputs and 2 outputs"), StateError);
}

TEST_CASE("trace: what a graph cannot hold") {
  check_refused([](const Tensor& x) { return mul(x, x.sum().item<float>()); },
                "reads values on the host");
  check_refused([](const Tensor& x) { return x + static_cast<double>(x.to_vector<float>()[0]); },
                "reads values on the host");
  check_refused([](const Tensor& x) { return mul(x, static_cast<double>(x.data<float>()[2])); },
                "a tensor that no traced op made has other values");
  check_refused([](const Tensor& x) { return x.data<float>()[0] == 0 ? relu(x) : neg(x); },
                "relu in one run, neg in the other");
  check_refused([](const Tensor& x) { return x.data<float>()[0] == 0 ? relu(x) : relu(neg(x)); },
                "the program is not the same");
  check_refused([](const Tensor& x) { return sort(x, 0).values + 1; },
                "graphs do not hold the op sort");
  check_refused([](const Tensor& x) { return dropout(x, {.p = 0.5, .train = true}) + 1; },
                "dropout draws random numbers");
  check_refused([](const Tensor& x) { return x + randn({1}); },
                "a tensor that no traced op made has other values");
  check_refused(
      [](const Tensor& x) {
        Tensor y = relu(x);
        y.add_(1);
        return neg(y);
      },
      "writes into a tensor");
  check_refused(
      [](const Tensor& x) {
        const Tensor y = zeros({3});
        copy_(y, select(x, 0, 0));
        return x + y;
      },
      "copy_ writes into a tensor");
  check_refused([](const Tensor& x) { return mul(x, static_cast<double>(x.dim(0))); },
                "with dynamic_batch = false");
  check_refused([](const Tensor& x) { return narrow(x, 0, 0, x.dim(0) / 2); },
                "length, an argument of narrow, is 1 and 2");  // of 2 and 5 rows
  check_refused([](const Tensor&) { return Tensor(); }, "undefined tensor");
  const auto reads_memory = [](const Tensors& x) {
    return Tensors{mul(x[0], static_cast<double>(x[0].data<float>()[0]))};
  };
  for (const Shape& shape : {Shape{}, Shape{2, 3}}) {  // of values that are all alike
    CHECK_THROWS_WITH_AS(jit::trace(reads_memory, {zeros(shape)}, {.dynamic_batch = false}),
                         Contains("a tensor that no traced op made has other values"),
                         jit::TraceError);
  }
  CHECK_THROWS_AS(jit::trace([](const Tensors& x) { return x; }, {}), ValueError);
}

TEST_CASE("trace: an argument may be NaN, and 0 has a sign") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto f = [&](const Tensors& x) { return Tensors{masked_fill(x[0], x[0] > 2, nan)}; };
  const jit::Graph graph = jit::trace(f, {example()});
  const Tensor got = graph(example());
  CHECK(equal(isnan(got), example() > 2));
  CHECK(jit::parse(graph.text()).text() == graph.text());
  check_refused(
      [](const Tensor& x) { return masked_fill(x, x > 2, x.data<float>()[0] == 0 ? 0.0 : -0.0); },
      "value, an argument of masked_fill, is 0.0 and -0.0");
}

TEST_CASE("trace: a program that is refused has not written the examples") {
  const Tensor x = zeros({2, 3});
  const auto writes = [](const Tensors& t) {
    t[0].add_(1);
    return Tensors{t[0] * 2};
  };
  CHECK_THROWS_AS(jit::trace(writes, {x}), jit::TraceError);
  CHECK(equal(x, zeros({2, 3})));
}

TEST_CASE("trace: a model in training mode is refused with the layer's name") {
  Net net;
  const Tensor before = net.bn.running_mean.clone();
  CHECK_THROWS_WITH_AS(jit::trace(net, example()), Contains("eval()"), jit::TraceError);
  net.bn.eval();
  CHECK_THROWS_WITH_AS(jit::trace(net, example()), Contains("Net.dropout"), jit::TraceError);
}

TEST_CASE("trace: casts of Autocast are nodes") {
  const Tensor w = randn({3, 3}).requires_grad_(), v = randn({3}).requires_grad_(), x = example();
  // w is cast once. In a scope of the caller's the first run would keep v's cast for the second:
  // dot() is no op of the table, and what it casts is a cast of its own.
  const auto f = [&](const Tensor& t) {
    return exp(matmul(matmul(t, w), w)) + t + dot(select(t, 0, 0), v);
  };
  const auto inside = [&](const Tensor& t) {
    const Autocast half(kCPU, kBF16);
    return f(t);
  };
  const Tensor want = inside(x);
  CHECK(!equal(want, f(x)));
  const auto check = [&](const jit::Graph& graph) {
    std::set<int> cast;  // no tensor twice
    for (const jit::Node& node : graph.nodes) {
      if (node.op->name == "cast") CHECK(cast.insert(node.inputs[0]).second);
    }
    CHECK(cast.size() >= 5);  // t, w, the row, v, and back to f32 for exp()
    CHECK(equal(graph(x), want));
  };
  check(traced(inside));
  const Autocast half(kCPU, kBF16);
  const jit::Graph graph = traced(f);
  check(graph);  // in the scope there is nothing left to cast
  const Autocast off(kCPU, kBF16, false);
  check(graph);
  const auto loss = [](const Tensor& t) {
    const Autocast on(kCPU, kBF16);
    const Tensor y = matmul(t, ones({3, 2}));
    return mse_loss(y, y.neg());
  };
  CHECK(equal(traced(loss)(x), loss(x)));
  CHECK(loss(x).dtype() == kF32);
}

TEST_CASE("trace: a graph for one batch") {
  const auto f = [](const Tensor& x) { return x + zeros({x.dim(0), 1}); };
  const jit::Graph graph = traced(f, {.dynamic_batch = false});
  CHECK(equal(graph(example()), example()));
  CHECK_THROWS_WITH_AS(graph(zeros({3, 3})), Contains("%x must be f32[2,3] (got: f32[3,3]@cpu)"),
                       ShapeError);
}

TEST_CASE("graph: threads share one graph") {
  Net net;
  net.eval();
  const jit::Graph graph = jit::trace(net, example());
  const Tensor expected = net(example());
  std::array<Tensor, 4> results;
  std::vector<std::thread> threads;
  for (Tensor& result : results) {
    threads.emplace_back([&] { result = graph(example()); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Tensor& result : results) CHECK(equal(result, expected));
}

TEST_CASE("graph: inputs are checked") {
  const jit::Graph graph = traced([](const Tensor& x) { return relu(x); });
  CHECK_THROWS_WITH_AS(graph(zeros({2, 4})), Contains("%x must be f32[N,3]"), ShapeError);
  CHECK_THROWS_WITH_AS(graph(zeros({2, 3}, {.dtype = kF64})), Contains("f32[N,3]"), DTypeError);
  CHECK_THROWS_AS(graph.run({}), StateError);
  CHECK(graph(zeros({0, 3})).shape() == Shape{0, 3});
}

// Without a watcher lstm is one op where gradients are recorded, and graphs do not hold that op.
TEST_CASE("trace: a function that records gradients has lstm as its single ops") {
  const RecurrentLayer layer{randn({8, 3}).requires_grad_(), randn({8, 2}).requires_grad_()};
  const Tensor x = randn({4, 1, 3}), state = zeros({1, 1, 2});
  const auto f = [&](const Tensors& in) {
    const EnableGrad on;
    return Tensors{lstm(in[0], state, state, {layer}).y};
  };
  const NoGrad off;
  const jit::Graph graph = jit::trace(f, {x}, {.dynamic_batch = false});
  CHECK(allclose(graph.run({x})[0], f({x})[0]));
}

TEST_CASE("trace: constants of the batch's size that have the same rows are made for any batch") {
  const auto f = [](const Tensors& in) {
    const Tensor& x = in[0];
    const Tensor unused = arange(x.dim(0)) + 1;
    const Tensor mask = (ones({x.dim(0), 3}) * tensor({1.f, 2.f, 3.f})).unsqueeze(1);  // [N,1,3]
    return Tensors{x * mask};
  };
  const jit::Graph graph = jit::trace(f, {randn({2, 4, 3})});
  const Tensor x = randn({7, 4, 3});
  CHECK(equal(graph(x), f({x})[0]));
  CHECK_THROWS_WITH_AS(
      jit::trace(
          [](const Tensors& in) { return Tensors{in[0] + arange(in[0].dim(0)).unsqueeze(1)}; },
          {randn({2, 1})}),
      doctest::Contains("has other values or another shape"), jit::TraceError);
}
