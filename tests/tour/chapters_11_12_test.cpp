// Chapters 11 and 12 of docs/tour, attention and fused kernels: what they claim beyond what they
// quote and print, and the solutions of their exercises. Each case is named after its chapter or
// exercise.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "lathe/autograd/checkpoint.h"
#include "lathe/core/memory/host_allocator.h"
#include "lathe/graph/op_table.h"
#include "lathe/graph/passes.h"
#include "lathe/graph/trace.h"
#include "lathe/lathe.h"

namespace lathe::test {
namespace {

double largest_difference(const Tensor& a, const Tensor& b) {
  return (a - b).abs().amax().item<double>();
}

/// The most bytes that f holds beyond what is there before.
size_t peak_of(const std::function<void()>& f) {
  f();  // what is made once is there
  host_allocator().reset_peak();
  const size_t before = host_allocator().stats().allocated_bytes;
  f();
  return host_allocator().stats().peak_allocated_bytes - before;
}

// --- 11: attention -------------------------------------------------------------------------------

Tensor naive(const Tensor& q, const Tensor& k, const Tensor& v) {
  const Tensor scores = matmul(q, k.t()) / std::sqrt(static_cast<double>(q.dim(1)));
  return matmul(scores.softmax(-1), v);
}

/// tiled() of the program, causal. Counts the products of a tile of queries and one of keys.
Tensor tiled_causal(const Tensor& q, const Tensor& k, const Tensor& v, int64_t tile,
                    int* products) {
  const Tensor out = empty(q.shape(), {.dtype = q.dtype()});
  const double scale = 1 / std::sqrt(static_cast<double>(q.dim(1)));
  const Tensor future = ones({tile, tile}, {.dtype = kBool}).triu(1);
  for (int64_t i = 0; i < q.dim(0); i += tile) {
    const Tensor queries = q.slice(0, i, i + tile) * scale;
    Tensor largest = full({tile, 1}, -INFINITY, q.dtype()), sum = zeros({tile, 1}, q.dtype());
    Tensor weighted = queries * 0;
    for (int64_t j = 0; j <= i; j += tile) {
      Tensor scores = matmul(queries, k.slice(0, j, j + tile).t());
      ++*products;
      if (j == i) scores = scores.masked_fill(future, -INFINITY);
      const Tensor now = maximum(largest, scores.amax({1}, {.keepdim = true}));
      const Tensor shrink = (largest - now).exp(), p = (scores - now).exp();
      sum = sum * shrink + p.sum({1}, {.keepdim = true});
      weighted = weighted * shrink + matmul(p, v.slice(0, j, j + tile));
      largest = now;
    }
    out.slice(0, i, i + tile).copy_(weighted / sum);
  }
  return out;
}

TEST_CASE("tour 11: attention made of ops holds two matrices of scores, tiles do not") {
  const NoGrad off;
  const int64_t L = 1024;
  const size_t scores = L * L * sizeof(float);
  const Tensor q = randn({L, 64}), k = randn({L, 64}), v = randn({L, 64});
  const size_t peak = peak_of([&] { naive(q, k, v); });
  CHECK(peak >= 2 * scores);
  CHECK(peak < 2 * scores + scores / 4);
  CHECK(peak_of([&] { scaled_dot_product_attention(q, k, v); }) < scores / 4);
  int products = 0;
  CHECK(peak_of([&] { tiled_causal(q, k, v, 128, &products); }) < scores / 4);
}

TEST_CASE("tour 11.1: pairs of a largest score and a sum join in any order") {
  struct Part {
    double largest = -INFINITY, sum = 0;  // of no scores
  };
  const auto join = [](Part a, Part b) {
    const double largest = std::fmax(a.largest, b.largest);
    if (largest == -INFINITY) return Part{};
    return Part{largest,
                a.sum * std::exp(a.largest - largest) + b.sum * std::exp(b.largest - largest)};
  };
  const auto of = [](double score) { return Part{score, 1}; };
  const Part left = join(join(join(of(1), of(3)), of(2)), of(5));
  const Part right = join(of(1), join(of(3), join(of(2), of(5))));
  CHECK(left.largest == 5);
  CHECK(left.sum == doctest::Approx(1.203438));
  CHECK(right.sum == doctest::Approx(left.sum));  // up to rounding
  CHECK(join(left, Part{}).sum == left.sum);
  CHECK(join(Part{}, Part{}).sum == 0);
}

TEST_CASE("tour 11.2: a causal attention needs 36 of 64 products of tiles") {
  const NoGrad off;
  manual_seed(1);
  const Tensor q = randn({1024, 64}), k = randn({1024, 64}), v = randn({1024, 64});
  int products = 0;
  const Tensor y = tiled_causal(q, k, v, 128, &products);
  CHECK(products == 8 * 9 / 2);
  CHECK(largest_difference(y, scaled_dot_product_attention(q, k, v, {.causal = true})) < 2e-6);
}

TEST_CASE("tour 11.3: the naive way keeps its weights, checkpoint() computes them again") {
  manual_seed(1);
  const int64_t L = 512, D = 64;
  const size_t scores = L * L * sizeof(float);
  const auto f = [](const Tensors& in) { return naive(in[0], in[1], in[2]); };
  Tensors gradients[2];
  for (const bool again : {false, true}) {
    manual_seed(2);
    const Tensors in{randn({L, D}), randn({L, D}), randn({L, D})};
    for (const Tensor& t : in) t.requires_grad_();
    const size_t before = host_allocator().stats().allocated_bytes;
    const Tensor y = again ? checkpoint(f, in) : f(in);
    const size_t kept = host_allocator().stats().allocated_bytes - before;
    if (again)
      CHECK(kept < scores / 4);  // the result and little more
    else
      CHECK(kept >= scores);
    y.sum().backward();
    for (const Tensor& t : in) gradients[again].push_back(t.grad());
  }
  for (size_t i = 0; i < 3; ++i) CHECK(equal(gradients[0][i], gradients[1][i]));
}

// --- 12: one kernel ------------------------------------------------------------------------------

Tensors chain(const Tensors& t) { return {(t[0] * t[1] + t[0]).relu() * 0.5 - t[1]}; }

/// The Huber loss of examples/compiled.cpp.
Tensors huber(const Tensors& t) {
  const Tensor d = t[0] - t[1], size = d.abs();
  return {where(size < 1, d.square() * 0.5, size - 0.5).mean()};
}

jit::Graph fused_graph(const std::function<Tensors(const Tensors&)>& f, const Tensors& examples) {
  jit::Graph graph = jit::trace(f, examples, {.dynamic_batch = false});
  jit::fuse_pointwise(graph);
  return graph;
}

/// How many whole tensors the nodes read and write, if each runs alone.
int64_t tensors_moved(const jit::Graph& graph) {
  const auto is_whole = [&](int value) {
    return !graph.values[static_cast<size_t>(value)].type.shape.empty();
  };
  int64_t count = 0;
  for (const jit::Node& node : graph.nodes) {
    count += is_whole(node.output);
    for (const int input : node.inputs) count += is_whole(input);
  }
  return count;
}

TEST_CASE("tour 12: a group takes memory for its result and no value between its ops") {
  const NoGrad off;
  const int64_t n = 1'000'000;
  const size_t tensor_bytes = n * sizeof(float);
  const Tensors in{randn({n}), randn({n})};
  CHECK(tensors_moved(fused_graph(chain, in)) == 13);
  const jit::CompiledFunction fused = jit::compile(chain);
  CHECK(peak_of([&] { chain(in); }) >= 2 * tensor_bytes);
  CHECK(peak_of([&] { fused(in); }) < tensor_bytes + tensor_bytes / 2);
  CHECK(fused.explain().find("together: mul, add, relu, mul, sub") != std::string::npos);
}

TEST_CASE("tour 12: for its gradient a group keeps its inputs, the single ops one more tensor") {
  const int64_t n = 1'000'000;
  const size_t tensor_bytes = n * sizeof(float);
  const Tensors in{randn({n}), randn({n})};
  for (const Tensor& t : in) t.requires_grad_();
  const jit::CompiledFunction fused = jit::compile(chain);
  fused(in);  // traced now
  for (const bool together : {false, true}) {
    const size_t before = host_allocator().stats().allocated_bytes;
    const Tensor y = (together ? fused(in) : chain(in))[0];
    const size_t kept = host_allocator().stats().allocated_bytes - before;
    CHECK(kept / tensor_bytes == (together ? 1 : 2));  // the result, and that of relu
  }
}

TEST_CASE("tour 12.1: of a softmax by hand one pair of ops is a group") {
  const auto softmax_by_hand = [](const Tensors& t) {
    const Tensor e = (t[0] - t[0].amax({1}, {.keepdim = true})).exp();
    return Tensors{e / e.sum({1}, {.keepdim = true})};
  };
  const jit::Graph graph = fused_graph(softmax_by_hand, {randn({64, 128})});
  std::string grouped, alone;
  for (const jit::Node& node : graph.nodes)
    (node.group != 0 ? grouped : alone) += concat(' ', node.op->name);
  CHECK(grouped == " sub exp");
  CHECK(alone == " amax sum div");  // sum reads exp's value, so it closes the group; div is alone
}

TEST_CASE("tour 12.2: the Huber loss moves eighteen tensors, or two") {
  const jit::Graph graph = fused_graph(huber, {randn({1000}), randn({1000})});
  // sub 3, abs, lt, square, mul and sub of a number 2 each, where 4, mean 1
  CHECK(tensors_moved(graph) == 18);
  int64_t outside = 0;  // tensors that the group reads; it writes none, but for the mean
  for (const int input : graph.inputs)
    outside += !graph.values[static_cast<size_t>(input)].type.shape.empty();
  CHECK(outside == 2);
  CHECK(graph.nodes.back().op->name == std::string("mean"));
}

TEST_CASE("tour 12.3: a function that reads a value is called itself") {
  const jit::CompiledFunction f = jit::compile(
      [](const Tensors& t) { return Tensors{t[0].sum().item<float>() > 0 ? t[0] * 2 : t[0] * 3}; });
  CHECK(f({ones({4})})[0].to_vector<float>() == std::vector<float>(4, 2));
  CHECK(f({-ones({4})})[0].to_vector<float>() == std::vector<float>(4, -3));
  CHECK(f.explain().find("reads values on the host") != std::string::npos);
}

}  // namespace
}  // namespace lathe::test
