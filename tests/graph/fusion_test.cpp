// Groups of pointwise ops: how they are found, and that they compute what the ops compute.
#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

#include "lathe/autograd/engine.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/core/random/generator.h"
#include "lathe/core/thread_pool.h"
#include "lathe/graph/passes.h"
#include "lathe/graph/trace.h"
#include "lathe/ops/activations.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/isclose.h"
#include "lathe/ops/random.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"
#include "lathe/ops/where.h"

using namespace lathe;

namespace {

using Function = std::function<Tensors(const Tensors&)>;

std::string fused(const std::string& lines) {
  jit::Graph graph = jit::parse("lathe graph 1\n" + lines);
  jit::fuse_pointwise(graph);
  const std::string text = graph.text();
  CHECK(jit::parse(text).text() == text);
  return text.substr(text.find("%"));  // from the first input's name
}

jit::Graph fused_graph(const Function& f, const Tensors& inputs) {
  jit::Graph graph = jit::trace(f, inputs, {.dynamic_batch = false});
  jit::fuse_pointwise(graph);
  return graph;
}

Tensors leaves(const Tensors& inputs) {
  Tensors copies;
  for (const Tensor& t : inputs) {
    copies.push_back(t.detach());  // shares memory: strides stay
    copies.back().requires_grad_();
  }
  return copies;
}

struct Gradients {
  Tensors values, gradients;
};

Gradients gradients_of(const Function& f, const Tensors& inputs) {
  const Tensors x = leaves(inputs);
  Gradients result{f(x), {}};
  Tensors seeds;
  manual_seed(3);
  for (const Tensor& y : result.values) seeds.push_back(rand(y.shape(), {.dtype = y.dtype()}));
  result.gradients = lathe::grad(result.values, x, {.grad_outputs = seeds});
  return result;
}

struct Case {
  const char* name;
  Tensors inputs;
  Function f;
};

Tensor chain(const Tensor& a, const Tensor& b) {
  const Tensor t = silu(a * b + 0.5) - a;
  return where(t > 0, t, t * 0.1).tanh() * b;
}

/// Every layout and way of broadcasting. Sizes are no multiples of a plan's piece.
std::vector<Case> cases() {
  manual_seed(5);
  const Function two = [](const Tensors& t) { return Tensors{chain(t[0], t[1])}; };
  const auto image = [](const Shape& shape) { return randn(shape); };
  return {
      {"one dimension", {randn({70001}), randn({70001})}, two},
      {"a number", {randn({70001}), randn({})}, two},
      {"an element", {randn({300, 301}), randn({1, 1})}, two},
      {"rows and columns", {randn({300, 301}), randn({301})}, two},
      {"one per row", {randn({301, 300}), randn({301, 1})}, two},
      {"one per column, first operand", {randn({1, 300}), randn({301, 300})}, two},
      {"channels of NCHW", {image({5, 7, 40, 41}), image({7, 1, 1})}, two},
      {"channels of NHWC",
       {image({5, 7, 40, 41}).contiguous(MemoryFormat::kChannelsLast), image({7, 1, 1})},
       two},
      {"both NHWC",
       {image({5, 7, 40, 41}).contiguous(MemoryFormat::kChannelsLast),
        image({5, 7, 40, 41}).contiguous(MemoryFormat::kChannelsLast)},
       two},
      {"transposed, as a whole", {randn({300, 301}).t(), randn({300, 301}).t()}, two},
      {"only one transposed", {randn({300, 301}).t(), randn({301, 300})}, two},
      {"every second", {randn({140001}).slice(0, 0, 140001, 2), randn({70001})}, two},
      {"a row and a column", {randn({300, 1}), randn({1, 301})}, two},
      {"f64", {randn({70001}, {.dtype = kF64}), randn({70001}, {.dtype = kF64})}, two},
      {"f16", {randn({70001}, {.dtype = kF16}), randn({70001}, {.dtype = kF16})}, two},
      {"two results",
       {randn({70001}), randn({70001})},
       [](const Tensors& t) {
         const Tensor s = t[0] * t[1];
         return Tensors{s.exp(), s + t[1].square()};
       }},
      {"a result that is read in the group",
       {randn({70001})},
       [](const Tensors& t) {
         const Tensor s = t[0].square();
         return Tensors{s, s.sqrt() + t[0]};
       }},
      {"a cast within",
       {randn({70001})},
       [](const Tensors& t) { return Tensors{(cast(t[0], kF64) * 3.0).exp()}; }},
  };
}

}  // namespace

TEST_CASE("fusion: neighbours of one shape become a group") {
  CHECK(fused("input %x: f32[N,3]\n"
              "input %s: f32[3]\n"
              "%0: f32[N,3] = add(%x, %s)\n"
              "%1: f32[3] = exp(%s)\n"
              "%2: f32[N,3] = mul(%0, %1)\n"
              "%3: bool[N,3] = gt(%2, %x)\n"
              "%4: f32[N,3] = where(%3, %2, %x)\n"
              "%5: f32[N] = sum(%4, dims=[1], keepdim=false)\n"
              "%6: f32[N] = sqrt(%5)\n"
              "%7: f32[N] = neg(%6)\n"
              "output %7\n") ==
        "%x: f32[N,3]\n"
        "input %s: f32[3]\n"
        "%1: f32[3] = exp(%s)\n"  // moved: the group does not make %s
        "%0: f32[N,3] = add(%x, %s) {1}\n"
        "%2: f32[N,3] = mul(%0, %1) {1}\n"
        "%3: bool[N,3] = gt(%2, %x) {1}\n"
        "%4: f32[N,3] = where(%3, %2, %x) {1}\n"
        "%5: f32[N] = sum(%4, dims=[1], keepdim=false)\n"
        "%6: f32[N] = sqrt(%5) {2}\n"
        "%7: f32[N] = neg(%6) {2}\n"
        "output %7\n");
}

TEST_CASE("fusion: what reads a group's value ends it, and one node is no group") {
  CHECK(fused("input %x: f32[N,3]\n"
              "%0: f32[N,3] = exp(%x)\n"
              "%1: f32[N] = sum(%0, dims=[1], keepdim=false)\n"
              "%2: f32[N,3] = neg(%0)\n"
              "output %1, %2\n") ==
        "%x: f32[N,3]\n"
        "%0: f32[N,3] = exp(%x)\n"
        "%1: f32[N] = sum(%0, dims=[1], keepdim=false)\n"
        "%2: f32[N,3] = neg(%0)\n"
        "output %1, %2\n");
}

TEST_CASE("fusion: a group of text that is none runs all the same") {
  // Other shapes, an op that is not pointwise, neighbours of other groups: hints, not promises.
  const jit::Graph graph = jit::parse(
      "lathe graph 1\n"
      "input %x: f32[N,300]\n"
      "%0: f32[N,300] = exp(%x) {1}\n"
      "%1: f32[N] = sum(%0, dims=[1], keepdim=false) {1}\n"
      "%2: f32[N] = sqrt(%1) {1}\n"
      "%3: f32[N] = neg(%2) {2}\n"
      "output %3\n");
  const Tensor x = randn({200, 300});
  CHECK(equal(graph(x), x.exp().sum({1}).sqrt().neg()));
  CHECK_THROWS_AS(
      jit::parse("lathe graph 1\ninput %x: f32[N]\n%0: f32[N] = exp(%x) {0}\noutput %0\n"),
      DataError);
}

TEST_CASE("fusion: a value that is not of its type is an error in a group, too") {
  const auto run = [](const char* type) {
    const jit::Graph graph =
        jit::parse(std::string("lathe graph 1\ninput %x: f32[N]\n%0: ") + type +
                   " = exp(%x) {1}\n%1: f32[N] = neg(%x) {1}\noutput %0, %1\n");
    return graph.run({randn({70001})})[0];
  };
  CHECK_THROWS_AS(run("f64[N]"), DTypeError);
  CHECK(run("f32[N]").defined());
}

TEST_CASE("fusion: bits and strides of the ops, on any number of threads") {
  const int before = num_threads();
  const NoGrad off;
  for (const Case& c : cases()) {
    CAPTURE(c.name);
    const jit::Graph graph = fused_graph(c.f, c.inputs);
    CHECK(graph.text().find("{1}") != std::string::npos);
    const Tensors expected = c.f(c.inputs);
    for (const int threads : {1, 3}) {
      set_num_threads(threads);
      const Tensors got = graph.run(c.inputs);
      REQUIRE(got.size() == expected.size());
      for (size_t i = 0; i < got.size(); ++i) {
        CHECK(equal(got[i], expected[i]));
        CHECK(got[i].strides() == expected[i].strides());
      }
    }
  }
  set_num_threads(before);
}

TEST_CASE("fusion: gradients") {
  for (const Case& c : cases()) {
    CAPTURE(c.name);
    const jit::Graph graph = fused_graph(c.f, c.inputs);
    const Gradients expected = gradients_of(c.f, c.inputs);
    const Gradients got = gradients_of([&](const Tensors& t) { return graph.run(t); }, c.inputs);
    for (size_t i = 0; i < got.values.size(); ++i) CHECK(equal(got.values[i], expected.values[i]));
    for (size_t i = 0; i < c.inputs.size(); ++i) {
      CAPTURE(i);
      const Tensor &g = got.gradients[i], &e = expected.gradients[i];
      REQUIRE(g.shape() == c.inputs[i].shape());
      if (c.inputs[i].numel() == expected.values[0].numel()) {
        CHECK(equal(g, e));
      } else {  // sums of up to 70,001 numbers in another order
        const double bound = c.inputs[i].dtype() == kF16 ? 1e-2 : 1e-5;
        CHECK((g - e).abs().max().item<double>() <= bound * (e.abs().max().item<double>() + 1));
      }
    }
  }
}

TEST_CASE("fusion: the sum and the mean behind a group have the op's bits, and so have gradients") {
  const int before = num_threads();
  // One chunk of a sum is 65,536 numbers, a block 1,024.
  for (const int64_t size : {33000, 65536, 65537, 200001}) {
    for (const DType dtype : {kF32, kF64, kF16}) {
      for (const bool mean : {false, true}) {
        CAPTURE(size);
        CAPTURE(mean);
        const Function f = [&](const Tensors& t) {
          const Tensor d = t[0] - t[1], e = (d * d + 1).sqrt();
          return Tensors{mean ? e.mean() : e.sum(), d.abs()};
        };
        manual_seed(4);
        const Tensors inputs{randn({size}, {.dtype = dtype}), randn({size}, {.dtype = dtype})};
        const jit::Graph graph = fused_graph(f, inputs);
        const Gradients expected = gradients_of(f, inputs);
        for (const int threads : {1, 3}) {
          set_num_threads(threads);
          const Gradients got =
              gradients_of([&](const Tensors& t) { return graph.run(t); }, inputs);
          for (size_t i = 0; i < 2; ++i) {
            CHECK(equal(got.values[i], expected.values[i]));
            CHECK(equal(got.gradients[i], expected.gradients[i]));
          }
        }
      }
    }
  }
  set_num_threads(before);
}

TEST_CASE("fusion: a mean behind a group, in other orders of memory, twice, and of what is read") {
  const NoGrad off;
  const auto check = [](const Function& f, const Tensors& inputs) {
    const Tensors got = fused_graph(f, inputs).run(inputs), expected = f(inputs);
    for (size_t i = 0; i < expected.size(); ++i) CHECK(equal(got[i], expected[i]));
  };
  const Function one = [](const Tensors& t) { return Tensors{(t[0] * t[0] + t[0]).mean()}; };
  manual_seed(6);
  check(one, {randn({5, 7, 40, 41}).contiguous(MemoryFormat::kChannelsLast)});
  check(one, {randn({300, 301}).t()});
  check(one, {randn({300, 602}).slice(1, 0, 602, 2)});
  // The value is a result too; the sum is the group's last reader; a sum with its dimension.
  check(
      [](const Tensors& t) {
        const Tensor y = (t[0] * t[0]).exp();
        return Tensors{y, y.sum()};
      },
      {randn({40000})});
  check(
      [](const Tensors& t) {
        const Tensor y = t[0] * t[0], z = y.exp();
        return Tensors{y.sum(), z};
      },
      {randn({40000})});
  check([](const Tensors& t) { return Tensors{(t[0] * t[0] + t[0]).sum(Dims{}, true)}; },
        {randn({300, 300})});
}

TEST_CASE("fusion: gradients of gradients, and of one input only") {
  const Function f = [](const Tensors& t) { return Tensors{chain(t[0], t[1])}; };
  manual_seed(8);
  const Tensors inputs{randn({40000}, {.dtype = kF64}), randn({40000}, {.dtype = kF64})};
  const jit::Graph graph = fused_graph(f, inputs);
  const auto second = [&](const Function& call) {
    const Tensors x = leaves(inputs);
    const Tensors first = lathe::grad({call(x)[0].sum()}, x, {.create_graph = true});
    return lathe::grad({(first[0] * first[1]).sum()}, x);
  };
  const Tensors got = second([&](const Tensors&t) { return graph.run(t); }), expected = second(f);
  for (size_t i = 0; i < 2; ++i) {
    CHECK((got[i] - expected[i]).abs().max().item<double>() <= 1e-12);
  }

  const Tensor x = inputs[0].detach().requires_grad_(), z = inputs[0].detach().requires_grad_();
  graph.run({x, inputs[1]})[0].sum().backward();
  f({z, inputs[1]})[0].sum().backward();
  CHECK(equal(x.grad(), z.grad()));
}

TEST_CASE("fusion: gradients of gradients of many groups in a row") {
  // Each group's own backward pass must end at its inputs: if it walked on, 2^40 passes would run.
  const Function f = [](const Tensors& t) { return Tensors{(t[0] * t[1]).tanh() + t[0]}; };
  manual_seed(8);
  const Tensor x = randn({40000}, {.dtype = kF64}), y = randn({40000}, {.dtype = kF64});
  const jit::Graph graph = fused_graph(f, {x, y});
  const auto second = [&](const Function& call) {
    const Tensor leaf = x.detach().requires_grad_();
    Tensor z = leaf;
    for (int i = 0; i < 40; ++i) z = call({z, y})[0] * 0.5;
    const Tensor first = lathe::grad({z.sum()}, {leaf}, {.create_graph = true})[0];
    return lathe::grad({first.square().sum()}, {leaf})[0];
  };
  const Tensor got = second([&](const Tensors& t) { return graph.run(t); });
  CHECK(allclose(got, second(f), {.rtol = 1e-10, .atol = 1e-14}));
}

TEST_CASE("fusion: gradients of gradients where one input depends on another, or is it") {
  const Function f = [](const Tensors& t) { return Tensors{t[0] * t[1] + t[0]}; };
  manual_seed(8);
  const Tensor x = randn({40000}, {.dtype = kF64}).requires_grad_();
  const jit::Graph of_number = fused_graph(f, {x.detach(), x.detach().mean()});
  const jit::Graph of_itself = fused_graph(f, {x.detach(), x.detach()});
  const auto first = [&](const Tensor& y) {
    return lathe::grad({y.sum()}, {x}, {.create_graph = true})[0];
  };
  const Tensor m = x.mean();
  CHECK((first(of_number.run({x, m})[0]) - (2 * m + 1)).abs().max().item<double>() <= 1e-12);
  CHECK((first(of_itself.run({x, x})[0]) - (2 * x + 1)).abs().max().item<double>() <= 1e-12);
}

TEST_CASE("fusion: half gradients of a number are summed in f32") {
  const Function f = [](const Tensors& t) { return Tensors{t[0] * t[1] + t[0]}; };
  const Tensor x = ones({1 << 23}, {.dtype = kBF16}), s = ones({1}, {.dtype = kBF16});
  const jit::Graph graph = fused_graph(f, {x, s});
  const Tensor leaf = s.detach().requires_grad_();
  graph.run({x, leaf})[0].sum().backward();
  CHECK(leaf.grad().to_vector<float>()[0] == 1 << 23);  // a sum of 512 halves stops at half of it
}

TEST_CASE("fusion: a value of broadcast operands alone keeps its own order in memory") {
  const Function f = [](const Tensors& t) { return Tensors{t[0] + 1, t[1] * t[2]}; };
  const Tensors inputs{randn({5, 7, 40, 41}).contiguous(MemoryFormat::kChannelsLast),
                       randn({5, 7, 1, 1}), randn({1, 1, 40, 41})};
  const NoGrad off;
  const Tensors got = fused_graph(f, inputs).run(inputs), expected = f(inputs);
  for (size_t i = 0; i < 2; ++i) CHECK(got[i].strides() == expected[i].strides());
}
