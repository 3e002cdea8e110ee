// MultiheadAttention against its formula written as loops, LayerNorm2d against LayerNorm,
// StochasticDepth and SqueezeExcitation against their definitions.
#include "lathe/nn/attention.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "lathe/autograd/gradcheck.h"
#include "lathe/core/random/generator.h"
#include "lathe/nn/conv_norm.h"
#include "lathe/nn/dropout.h"
#include "lathe/nn/functional_call.h"
#include "lathe/nn/init.h"
#include "lathe/nn/norm.h"
#include "lathe/nn/summary.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/inplace.h"
#include "lathe/ops/random.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"

namespace lathe {
namespace {

using Values = std::vector<double>;

// A bare mask could be meant as PyTorch's attn_mask or as its key_padding_mask.
template <class Mask>
constexpr bool kTakesAsMask =
    std::is_invocable_v<nn::MultiheadAttention&, const Tensor&, const Tensor&, const Tensor&, Mask>;
static_assert(kTakesAsMask<nn::AttentionMask> && !kTakesAsMask<Tensor>);

/// Rows [n,in] times the rows first … first + size - 1 of w [·,in], plus b.
Values project(const Values& x, const Values& w, const Values& b, size_t in, size_t first,
               size_t size) {
  Values y(x.size() / in * size);
  for (size_t i = 0; i < y.size(); ++i) {
    const size_t row = i / size, out = first + i % size;
    y[i] = b[out];
    for (size_t c = 0; c < in; ++c) y[i] += x[row * in + c] * w[out * in + c];
  }
  return y;
}

/// One sample: query [L,E], key and value [S,E]; mask [L,S] is added to the scores of every head.
Values attention_by_loops(const nn::MultiheadAttention& m, size_t heads, const Tensor& query,
                          const Tensor& key, const Tensor& value, const Values& mask) {
  const size_t E = size_t(query.dim(1)), L = size_t(query.dim(0)), S = size_t(key.dim(0));
  const size_t D = E / heads;
  const Values w = m.in_proj_weight.to_vector<double>(), b = m.in_proj_bias.to_vector<double>();
  const Values q = project(query.to_vector<double>(), w, b, E, 0, E),
               k = project(key.to_vector<double>(), w, b, E, E, E),
               v = project(value.to_vector<double>(), w, b, E, 2 * E, E);
  Values y(L * E);
  for (size_t h = 0; h < heads; ++h) {
    for (size_t l = 0; l < L; ++l) {
      Values share(S);
      double total = 0;
      for (size_t s = 0; s < S; ++s) {
        double score = 0;
        for (size_t d = 0; d < D; ++d) score += q[l * E + h * D + d] * k[s * E + h * D + d];
        total += share[s] = std::exp(score / std::sqrt(double(D)) + mask[l * S + s]);
      }
      for (size_t d = 0; d < D; ++d) {
        for (size_t s = 0; s < S; ++s)
          y[l * E + h * D + d] += share[s] / total * v[s * E + h * D + d];
      }
    }
  }
  return project(y, m.out_proj.weight.to_vector<double>(), m.out_proj.bias.to_vector<double>(), E,
                 0, E);
}

void check_close(const Tensor& y, const Values& want, double tolerance = 1e-12) {
  const Values got = y.to_vector<double>();
  REQUIRE(got.size() == want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    CHECK(std::fabs(got[i] - want[i]) <= tolerance * (1 + std::fabs(want[i])));
  }
}

/// An attention of 6 numbers in f64, with biases that are not 0.
void fill(nn::MultiheadAttention& m) {
  m.to(kF64);
  nn::init::normal_(m.in_proj_bias, 0, 1);
  nn::init::normal_(m.out_proj.bias, 0, 1);
}

TEST_CASE("MultiheadAttention: values are those of the formula, with and without a mask") {
  manual_seed(1);
  nn::MultiheadAttention m(6, 3);
  fill(m);
  const Tensor x = randn({2, 4, 6}, kF64), memory = randn({2, 5, 6}, kF64),
               other = randn({2, 5, 6}, kF64);
  const Values none4(16, 0.0), none5(20, 0.0);
  for (int64_t n = 0; n < 2; ++n) {
    check_close(m(x)[n], attention_by_loops(m, 3, x[n], x[n], x[n], none4));
    check_close(m(x, memory, other, {})[n],
                attention_by_loops(m, 3, x[n], memory[n], other[n], none5));
    const Tensor bias = randn({4, 5}, kF64);
    check_close(m(x, memory, memory, {bias})[n],
                attention_by_loops(m, 3, x[n], memory[n], memory[n], bias.to_vector<double>()));
  }
  // Each place looks at itself and at those before it.
  const Tensor later = ones({4, 4}, kBool).triu(1);
  const Values added = zeros({4, 4}, kF64)
                           .masked_fill(later, -std::numeric_limits<double>::infinity())
                           .to_vector<double>();
  check_close(m(x, x, x, {later})[1], attention_by_loops(m, 3, x[1], x[1], x[1], added));
}

TEST_CASE("MultiheadAttention: a mask may differ per sample and head; nowhere to look gives 0") {
  manual_seed(8);
  nn::MultiheadAttention m(4, 2);
  fill(m);
  const Tensor x = randn({2, 3, 4}, kF64);
  // Sample 0 has three tokens, sample 1 two and one of padding, which no query looks at.
  const Tensor padding = tensor(std::vector<double>{0, 0, 0, 0, 0, 1}).view({2, 1, 1, 3}) > 0.5;
  const double kNowhere = -std::numeric_limits<double>::infinity();
  const Values all(9, 0.0), two = {0, 0, kNowhere, 0, 0, kNowhere, 0, 0, kNowhere};
  check_close(m(x, x, x, {padding})[0], attention_by_loops(m, 2, x[0], x[0], x[0], all));
  check_close(m(x, x, x, {padding})[1], attention_by_loops(m, 2, x[1], x[1], x[1], two));
  // Of [N,heads,L,S]: the numbers of one head are added to that head alone.
  const Tensor bias = zeros({2, 2, 3, 3}, kF64);
  bias.select(0, 1).select(0, 1).copy_(randn({3, 3}, kF64));
  const auto before = m(x).to_vector<double>(), after = m(x, x, x, {bias}).to_vector<double>();
  CHECK(std::equal(before.begin(), before.begin() + 12, after.begin()));
  CHECK(before != after);
  // Query 1 of sample 0 may look nowhere, whichever mask says so: only out_proj's bias is left.
  const Tensor none = zeros({2, 1, 3, 3}, kBool);
  none.select(0, 0).select(0, 0).select(0, 1).fill_(true);
  const Tensor added = zeros({2, 1, 3, 3}, kF64).masked_fill(none, kNowhere);
  const Values want = m.out_proj.bias.to_vector<double>();
  for (const Tensor& mask : {none, added}) {
    const Tensor y = m(x, x, x, {mask});
    CHECK(y[0][1].to_vector<double>() == want);
    const Values rest = m(x).to_vector<double>(), got = y.to_vector<double>();
    CHECK(std::equal(got.begin(), got.begin() + 4, rest.begin()));
    CHECK(std::equal(got.begin() + 8, got.end(), rest.begin() + 8));
  }
}

TEST_CASE("MultiheadAttention: multiply-adds are those of its projections and products") {
  nn::MultiheadAttention m(6, 3);
  const Tensor query = zeros({2, 4, 6}), memory = zeros({2, 5, 6});
  const int64_t out = 2 * 4 * 6 * 6;  // of out_proj
  const int64_t self = nn::summary(m, [&] { m(query); }).macs;
  CHECK(self == 3 * (2 * 4 * 6 * 6) + 2 * (2 * 4 * 4 * 6) + out);
  const int64_t cross = nn::summary(m, [&] { m(query, memory, memory, {}); }).macs;
  CHECK(cross == (2 * 4 * 6 * 6) + 2 * (2 * 5 * 6 * 6) + 2 * (2 * 4 * 5 * 6) + out);
}

TEST_CASE("MultiheadAttention: a mask of another floating dtype is one of the model's") {
  manual_seed(3);
  nn::MultiheadAttention m(4, 2);
  m.to(kF16);
  const Tensor x = randn({1, 3, 4}).to(kF16), mask = full({3, 3}, -1.0);
  REQUIRE(mask.dtype() == kF32);
  CHECK(m(x, x, x, {mask}).to_vector<float>() == m(x, x, x, {mask.to(kF16)}).to_vector<float>());
}

TEST_CASE("MultiheadAttention: gradients agree with finite differences") {
  manual_seed(2);
  nn::MultiheadAttention m(4, 2);
  fill(m);
  const Tensor mask = ones({3, 3}, kBool).triu(1);
  const auto f = [&](const Tensors& in) { return square(m(in[0], in[0], in[0], {mask})); };
  const GradReport self = gradcheck(f, {randn({2, 3, 4}, kF64)});
  CHECK_MESSAGE(self.ok, self.text);
  const auto g = [&](const Tensors& in) { return square(m(in[0], in[1], in[2], {})); };
  const GradReport cross =
      gradcheck(g, {randn({2, 3, 4}, kF64), randn({2, 2, 4}, kF64), randn({2, 2, 4}, kF64)});
  CHECK_MESSAGE(cross.ok, cross.text);
  struct Self final : nn::Module {
    nn::MultiheadAttention m{*this, "m", 4, 2};
    Tensor forward(const Tensor& x) override { return m(x); }
  } net;
  fill(net.m);
  const Tensor x = randn({1, 3, 4}, kF64);
  const auto h = [&](const Tensors& in) {
    return square(
        nn::functional_call(net, {{"m.in_proj_weight", in[0]}, {"m.in_proj_bias", in[1]}}, x));
  };
  const GradReport weights =
      gradcheck(h, {net.m.in_proj_weight.detach().clone(), net.m.in_proj_bias.detach().clone()});
  CHECK_MESSAGE(weights.ok, weights.text);
}

TEST_CASE("MultiheadAttention: dropout, no bias, errors") {
  manual_seed(3);
  nn::MultiheadAttention m(4, 2, {.dropout = 0.5, .bias = false});
  CHECK(m.parameters().size() == 2);
  const Tensor x = randn({1, 6, 4});
  CHECK(m(x).to_vector<float>() != m(x).to_vector<float>());
  m.eval();
  CHECK(m(x).to_vector<float>() == m(x).to_vector<float>());
  CHECK_THROWS_WITH_AS(nn::MultiheadAttention(6, 4), doctest::Contains("4 heads do not divide"),
                       ValueError);
  CHECK_THROWS_WITH_AS(m(randn({1, 6, 5})), doctest::Contains("query must be [N,L,4]"), ShapeError);
  CHECK_THROWS_AS(m(x, x, randn({1, 5, 4}), {}), ShapeError);
  CHECK_THROWS_AS(m(x, x, x, {zeros({6, 6}, kI64)}), DTypeError);
}

TEST_CASE("LayerNorm2d: is LayerNorm over the channels of each position") {
  manual_seed(4);
  nn::LayerNorm2d norm(5, {.eps = 1e-3});
  nn::init::normal_(norm.weight, 1, 1);
  nn::init::normal_(norm.bias, 0, 1);
  norm.to(kF64);
  const Tensor x = randn({2, 5, 3, 4}, kF64);
  const Tensor y = norm(x);
  CHECK(y.shape() == x.shape());
  for (int64_t h = 0; h < 3; ++h) {
    const Values v = x.select(0, 1).select(1, h).select(1, 2).to_vector<double>();
    double mean = 0, variance = 0;
    for (const double a : v) mean += a / 5;
    for (const double a : v) variance += (a - mean) * (a - mean) / 5;
    Values want(5);
    for (size_t c = 0; c < 5; ++c) {
      want[c] =
          (v[c] - mean) / std::sqrt(variance + 1e-3) * norm.weight[int64_t(c)].item<double>() +
          norm.bias[int64_t(c)].item<double>();
    }
    check_close(y.select(0, 1).select(1, h).select(1, 2), want);
  }
  CHECK_THROWS_AS(norm(randn({2, 4, 3, 4}, kF64)), ShapeError);
  CHECK_THROWS_AS(nn::LayerNorm2d(0), ValueError);
}

TEST_CASE("StochasticDepth: drops whole samples in training, and scales the others") {
  manual_seed(5);
  nn::StochasticDepth drop(0.25);
  const Tensor x = ones({2000, 2, 3});
  const Tensor y = drop(x);
  int64_t kept = 0;
  const auto v = y.to_vector<float>();
  for (size_t i = 0; i < v.size(); i += 6) {
    for (size_t j = 1; j < 6; ++j) REQUIRE(v[i + j] == v[i]);
    if (v[i] == 0) continue;
    REQUIRE(v[i] == doctest::Approx(1 / 0.75));
    ++kept;
  }
  CHECK(std::abs(kept - 1500) < 6 * std::sqrt(2000 * 0.25 * 0.75));  // six standard deviations
  drop.eval();
  CHECK(drop(x).to_vector<float>() == x.to_vector<float>());
  CHECK_THROWS_AS(nn::StochasticDepth(1.5), ValueError);
}

TEST_CASE("Conv2dNormActivation, SqueezeExcitation: are made of their layers") {
  manual_seed(6);
  nn::Conv2dNormActivation layer(
      3, 4, {.kernel = 5, .stride = 2, .activation = nn::ConvActivation::kSiLU});
  layer.eval();
  const Tensor x = randn({2, 3, 7, 8});
  const Tensor z = layer.norm(layer.conv(x));
  CHECK(z.shape() == Shape{2, 4, 4, 4});
  check_close(layer(x), (z * sigmoid(z)).to_vector<double>(), 1e-6);
  CHECK_THROWS_AS(nn::Conv2dNormActivation(3, 4, {.kernel = 2}), ValueError);
  nn::SqueezeExcitation squeeze(4, 2);
  const Tensor means = mean(z, {2, 3}, {.keepdim = true});
  const Tensor a = squeeze.fc1(means);
  const Tensor scale = sigmoid(squeeze.fc2(a * sigmoid(a)));
  check_close(squeeze(z), (z * scale).to_vector<double>(), 1e-6);
}

}  // namespace
}  // namespace lathe
