// scaled_dot_product_attention against sums that are written out. golden_pt2/ has PyTorch's numbers.
#include "lathe/ops/attention.h"

#include <cmath>
#include <limits>

#include "compare.h"
#include "lathe/autograd/autocast.h"
#include "lathe/core/memory/host_allocator.h"
#include "lathe/core/random/generator.h"
#include "lathe/core/thread_pool.h"
#include "lathe/ops/random.h"

using namespace lathe;
using namespace lathe::test;
using doctest::Contains;

namespace {

using Values = std::vector<double>;
using In = const Tensors&;

/// One head, element by element. `looks(i, j)`: whether query i may look at key j.
template <class F>
Values by_sums(const Tensor& q, const Tensor& k, const Tensor& v, double scale, F&& looks) {
  const Values a = q.to_vector<double>(), b = k.to_vector<double>(), c = v.to_vector<double>();
  const auto rows = static_cast<size_t>(q.dim(0)), keys = static_cast<size_t>(k.dim(0));
  const auto size = static_cast<size_t>(q.dim(1)), width = static_cast<size_t>(v.dim(1));
  Values y(rows * width);
  for (size_t i = 0; i < rows; ++i) {
    Values weights(keys);
    double sum = 0;
    for (size_t j = 0; j < keys; ++j) {
      double score = 0;
      for (size_t d = 0; d < size; ++d) score += a[i * size + d] * b[j * size + d];
      sum += weights[j] = looks(i, j) ? std::exp(scale * score) : 0;
    }
    for (size_t j = 0; j < keys; ++j) {
      for (size_t d = 0; d < width; ++d) {
        y[i * width + d] += sum == 0 ? 0 : weights[j] / sum * c[j * width + d];
      }
    }
  }
  return y;
}

}  // namespace

TEST_CASE("attention: values, causal and with masks") {
  manual_seed(1);
  const Tensor q = f64({3, 4}), k = f64({5, 4}), v = f64({5, 2});
  const auto all = [](size_t, size_t) { return true; };
  CHECK(difference(scaled_dot_product_attention(q, k, v), by_sums(q, k, v, 0.5, all), 1e-14) == "");
  CHECK(difference(scaled_dot_product_attention(q, k, v, {.scale = 2.0}), by_sums(q, k, v, 2, all),
                   1e-14) == "");
  CHECK(difference(scaled_dot_product_attention(q, k, v, {.causal = true}),
                   by_sums(q, k, v, 0.5, [](size_t i, size_t j) { return j <= i; }), 1e-14) == "");
  // A query that may look nowhere gives 0, and so does its gradient.
  const Tensor mask = tensor({{1, 0, 1, 0, 0}, {0, 0, 0, 0, 0}, {1, 1, 1, 1, 1}}).to(kBool);
  const Values at = mask.to_vector<double>();
  const Tensor want_grad = q.detach().requires_grad_();
  const Tensor y = scaled_dot_product_attention(want_grad, k, v, {.mask = mask});
  const auto looks = [&](size_t i, size_t j) { return at[i * 5 + j] != 0; };
  CHECK(difference(y, by_sums(q, k, v, 0.5, looks), 1e-14) == "");
  y.sum().backward();
  CHECK(difference(want_grad.grad()[1], Values(4, 0), 0) == "");
  // The same as numbers that are added.
  const Tensor never = zeros({3, 5}, {.dtype = kF64});
  never.masked_fill_(logical_not(mask), -std::numeric_limits<double>::infinity());
  const Tensor other = q.detach().requires_grad_();
  const Tensor z = scaled_dot_product_attention(other, k, v, {.mask = never});
  CHECK(difference(z, y.to_vector<double>(), 1e-14) == "");
  z.sum().backward();
  CHECK(difference(other.grad(), want_grad.grad().to_vector<double>(), 1e-14) == "");
}

TEST_CASE("attention: in half precision large negative numbers leave a query nowhere to look") {
  const Tensor q = full({2, 4}, 4.0), k = full({2, 4}, -4.0), v = ones({2, 2});  // scores of -32
  const auto hidden = [](double number) {
    const Tensor mask = zeros({2, 2});
    mask[1].fill_(number);
    return mask;
  };
  const Values want{1, 1, 0, 0};
  {
    const Autocast half(kCPU, kBF16);
    const Tensor mask = hidden(std::numeric_limits<float>::lowest());
    for (const bool causal : {false, true}) {
      const Tensor y = scaled_dot_product_attention(q, k, v, {.mask = mask, .causal = causal});
      CHECK(difference(y, want, 0) == "");
    }
  }
  // The mask is finite here, and the sums are not.
  const Tensor leaf = q.to(kF16).requires_grad_();
  const Tensor y =
      scaled_dot_product_attention(leaf, k.to(kF16), v.to(kF16), {.mask = hidden(-65504).to(kF16)});
  CHECK(difference(y, want, 0) == "");
  y.sum().backward();
  CHECK(difference(leaf.grad()[1], Values(4, 0), 0) == "");
}

TEST_CASE("attention: heads of key and value serve several of query; dropout of all gives 0") {
  manual_seed(2);
  const Tensor q = f64({2, 4, 3, 2}), k = f64({2, 2, 5, 2}), v = f64({2, 2, 5, 3});
  const Tensor y = scaled_dot_product_attention(q, k, v, {.grouped = true});
  CHECK(y.shape() == Shape{2, 4, 3, 3});
  const Tensor third = scaled_dot_product_attention(q[1][2], k[1][1], v[1][1]);
  CHECK(difference(y[1][2], third.to_vector<double>(), 1e-14) == "");
  const Tensor none = scaled_dot_product_attention(q[0][0], k[0][0], v[0][0], {.dropout = 1});
  CHECK(difference(none, Values(9, 0), 0) == "");
}

TEST_CASE("attention: gradients agree with finite differences, twice") {
  manual_seed(3);
  const Tensor mask = tensor({{1, 0, 1}, {1, 1, 0}}).to(kBool);
  // clang-format off
  const GradientCase cases[] = {
      {"scaled_dot_product_attention", [](In x) { return scaled_dot_product_attention(x[0], x[1], x[2]); }, {f64({2, 2, 2}), f64({2, 3, 2}), f64({2, 3, 1})}},
      {"scaled_dot_product_attention masked", [mask](In x) { return scaled_dot_product_attention(x[0], x[1], x[2], {.mask = mask.to(x[0].device())}); }, {f64({2, 2}), f64({3, 2}), f64({3, 2})}},
      {"scaled_dot_product_attention with scores", [](In x) { return scaled_dot_product_attention(x[0], x[1], x[2], {.mask = x[3]}); }, {f64({2, 2}), f64({3, 2}), f64({3, 2}), f64({3})}},
      {"scaled_dot_product_attention grouped", [](In x) { return scaled_dot_product_attention(x[0], x[1], x[2], {.causal = true, .grouped = true}); }, {f64({2, 2, 2}), f64({1, 3, 2}), f64({1, 3, 2})}},
  };
  // clang-format on
  for (const GradientCase& c : cases) check_gradients(c);
}

namespace {

/// What attention and its gradients give for {q, k, v}, the loss being the sum of y * dy.
Tensors with_gradients(const Tensors& in, const Tensor& dy, const AttentionOptions& opt) {
  Tensors leaves, results;
  for (const Tensor& t : in) leaves.push_back(t.detach().requires_grad_());
  const Tensor y = scaled_dot_product_attention(leaves[0], leaves[1], leaves[2], opt);
  (y * dy).sum().backward();
  results.push_back(y.detach());
  for (const Tensor& t : leaves) results.push_back(t.grad());
  return results;
}

/// The op made of others: a mask of zeros that requires a gradient asks for it.
AttentionOptions composed(AttentionOptions opt) {
  if (!opt.mask.defined()) opt.mask = zeros({1}, {.dtype = kF64});
  if (opt.mask.dtype() == kBool) {
    const Tensor never = zeros(opt.mask.shape(), {.dtype = kF64});
    opt.mask = never.masked_fill(logical_not(opt.mask), -std::numeric_limits<double>::infinity());
  }
  opt.mask = opt.mask.detach().to(kF64).requires_grad_();
  return opt;
}

}  // namespace

TEST_CASE("attention: tiles agree with the op made of others, values and gradients") {
  // One tile has 128 queries and 512 keys.
  const std::pair<int64_t, int64_t> sizes[] = {{1, 1},     {7, 13},     {127, 511}, {128, 512},
                                               {129, 513}, {257, 1031}, {521, 131}};
  for (const auto& [L, S] : sizes) {
    manual_seed(4);
    const Tensors in{f64({2, 4, L, 5}), f64({2, 2, S, 5}), f64({2, 2, S, 3})};
    const Tensor dy = f64({2, 4, L, 3}), seen = f64({2, 1, L, S}) > 0, padding = f64({S}) > 0;
    const AttentionOptions options[] = {{},
                                        {.causal = true},
                                        {.scale = 1.5},
                                        {.mask = seen, .causal = true},
                                        {.mask = padding},
                                        {.mask = f64({4, 1, S})},
                                        {.mask = f64({L, 1}), .dropout = 0.4},
                                        {.causal = true, .dropout = 0.25}};
    for (size_t n = 0; n < std::size(options); ++n) {
      AttentionOptions opt = options[n];
      opt.grouped = true;
      manual_seed(5);
      const Tensors tiles = with_gradients(in, dy, opt);
      manual_seed(5);
      const Tensors others = with_gradients(in, dy, composed(opt));
      for (size_t i = 0; i < tiles.size(); ++i) {
        INFO("L ", L, " S ", S, " option ", n, " result ", i);
        CHECK(difference(tiles[i], others[i].to_vector<double>(), 1e-12) == "");
      }
      std::vector<Tensor> narrow_in;
      for (const Tensor& t : in) narrow_in.push_back(t.to(kF32));
      manual_seed(5);
      const Tensors narrow = with_gradients(narrow_in, dy.to(kF32), opt);
      for (size_t i = 0; i < narrow.size(); ++i) {
        CHECK(difference(narrow[i], tiles[i].to_vector<double>(), 1e-4) == "");
      }
      // In bf16, against f64 of the same rounded numbers.
      Tensors half_in, exact_in;
      for (const Tensor& t : in) half_in.push_back(t.to(kBF16));
      for (const Tensor& t : half_in) exact_in.push_back(t.to(kF64));
      manual_seed(5);
      const Tensors halves = with_gradients(half_in, dy.to(kBF16), opt);
      manual_seed(5);
      const Tensors exact = with_gradients(exact_in, dy.to(kBF16).to(kF64), opt);
      for (size_t i = 0; i < halves.size(); ++i) {
        CHECK(halves[i].dtype() == kBF16);
        CHECK(difference(halves[i].to(kF64), exact[i].to_vector<double>(), 0.02) == "");
      }
    }
  }
}

TEST_CASE("attention: second derivatives of bf16 are those of f64") {
  manual_seed(8);
  const auto second = [](DType dtype, const Tensors& in) {
    Tensors leaves;
    for (const Tensor& t : in) leaves.push_back(t.to(dtype).detach().requires_grad_());
    const Tensor y = scaled_dot_product_attention(leaves[0], leaves[1], leaves[2]);
    const Tensors first = lathe::grad({y.square().sum()}, leaves, {.create_graph = true});
    (first[0].square().sum() + first[1].square().sum()).backward();
    return leaves[2].grad().to(kF64);
  };
  const Tensors in{f64({2, 9, 4}).to(kBF16), f64({2, 11, 4}).to(kBF16), f64({2, 11, 3}).to(kBF16)};
  const Tensor want = second(kF64, in);
  CHECK(difference(second(kBF16, in), want.to_vector<double>(), 0.03) == "");
}

TEST_CASE("attention: memory grows with the length, and threads do not change a bit") {
  const auto peak_of = [](int64_t L, DType dtype) {
    const auto make = [&] { return randn({1, 2, L, 8}).to(dtype); };
    const Tensors in{make(), make(), make()};
    const Tensor dy = make();
    host_allocator().reset_peak();
    const size_t before = host_allocator().stats().allocated_bytes;
    with_gradients(in, dy, {.causal = true});
    return host_allocator().stats().peak_allocated_bytes - before;
  };
  const int before = num_threads();
  for (const DType dtype : {kF32, kBF16}) {
    for (const int count : {1, 3}) {
      set_num_threads(count);
      const size_t of_8192 = peak_of(8192, dtype);
      CHECK(of_8192 < 9 * peak_of(1024, dtype));
      CHECK(of_8192 < size_t{8192} * 8192 * sizeof(float) / 16);
    }
  }
  // Three heads are shared out as they are; tiles of one head for two threads and more.
  for (const int64_t heads : {3, 1}) {
    const Tensors in{randn({heads, 700, 8}), randn({heads, 1100, 8}), randn({heads, 1100, 8})};
    const Tensor dy = randn({heads, 700, 8});
    std::vector<std::vector<float>> results;
    for (const int count : {1, 2, 3}) {
      set_num_threads(count);
      manual_seed(6);
      for (const Tensor& t : with_gradients(in, dy, {.causal = true, .dropout = 0.1}))
        results.push_back(t.to_vector<float>());
    }
    CAPTURE(heads);
    for (size_t i = 4; i < results.size(); ++i) CHECK(results[i] == results[i % 4]);
  }
  set_num_threads(before);
}

TEST_CASE("attention: sizes that do not fit are named") {
  CHECK_THROWS_WITH_AS(scaled_dot_product_attention(zeros({2, 4}), zeros({3, 5}), zeros({3, 4})),
                       Contains("query: f32[2,4]@cpu, key: f32[3,5]@cpu, value: f32[3,4]@cpu"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(scaled_dot_product_attention(zeros({3, 2, 4}), zeros({2, 3, 4}),
                                                    zeros({2, 3, 4}), {.grouped = true}),
                       Contains("no multiple of the heads"), ShapeError);
  CHECK_THROWS_AS(
      scaled_dot_product_attention(zeros({2, 4}, {.dtype = kI64}), zeros({3, 4}), zeros({3, 4})),
      DTypeError);
}
