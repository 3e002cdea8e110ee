// Activations, pooling, padding, losses and InstanceNorm as modules: each calls its op with its options.
#include "lathe/nn/activation.h"

#include <doctest/doctest.h>

#include <vector>

#include "lathe/nn/losses.h"
#include "lathe/nn/norm.h"
#include "lathe/nn/pad.h"
#include "lathe/nn/pool2d.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/group_norm.h"
#include "lathe/ops/random.h"
#include "lathe/ops/softmax.h"

using namespace lathe;

namespace {

bool same(const Tensor& a, const Tensor& b) { return a.to_vector<float>() == b.to_vector<float>(); }

}  // namespace

TEST_CASE("activations: modules call the op of their name") {
  const Tensor x = randn({4, 6});
  CHECK(same(nn::ReLU6()(x), relu6(x)));
  CHECK(same(nn::Hardsigmoid()(x), hardsigmoid(x)));
  CHECK(same(nn::Hardswish()(x), hardswish(x)));
  CHECK(same(nn::Mish()(x), mish(x)));
  CHECK(same(nn::SELU()(x), selu(x)));
  CHECK(same(nn::Softsign()(x), softsign(x)));
  CHECK(same(nn::LogSigmoid()(x), logsigmoid(x)));
  CHECK(same(nn::LogSoftmax(1)(x), log_softmax(x, 1)));
  CHECK(same(nn::ELU(0.5)(x), elu(x, 0.5)));
  CHECK(same(nn::Softplus({.beta = 2})(x), softplus(x, {.beta = 2})));
  CHECK(same(nn::Hardtanh(-0.5, 0.25)(x), hardtanh(x, -0.5, 0.25)));
  CHECK(same(nn::GLU(1)(x), glu(x, 1)));
  nn::PReLU one, each(6, 0.1);
  CHECK(same(one(x), leaky_relu(x, 0.25)));
  CHECK(each.weight.shape() == Shape{6});
  CHECK(each.parameters().size() == 1);
}

TEST_CASE("pooling, padding, shuffling: modules call the op of their name") {
  const Tensor x = randn({2, 4, 8}), image = randn({2, 4, 6, 6});
  CHECK(same(nn::MaxPool1d(2)(x), max_pool1d(x, {.kernel = 2})));
  CHECK(same(nn::AvgPool1d({.kernel = 3, .pad = 1})(x), avg_pool1d(x, {.kernel = 3, .pad = 1})));
  CHECK(same(nn::AdaptiveAvgPool1d(3)(x), adaptive_avg_pool1d(x, 3)));
  CHECK(same(nn::PixelShuffle(2)(image), pixel_shuffle(image, 2)));
  CHECK(same(nn::PixelUnshuffle(3)(image), pixel_unshuffle(image, 3)));
  CHECK(same(nn::LocalResponseNorm(3)(image), local_response_norm(image, {.size = 3})));
  CHECK(same(nn::ZeroPad2d({1, 0, 2, 0})(image), pad(image, {1, 0, 2, 0})));
  CHECK(same(nn::ZeroPad1d(-1)(x), x.slice(2, 1, 7)));
  CHECK(same(nn::ConstantPad2d(1, 0.5)(image), pad(image, {1, 1, 1, 1}, 0.5)));
  CHECK(same(nn::ConstantPad1d({0, 2}, 3)(x), pad(x, {0, 2}, 3)));
  CHECK(same(nn::ReflectionPad1d(2)(x), pad(x, {2, 2}, PadMode::kReflect)));
  CHECK(same(nn::ReflectionPad2d(1)(image), pad(image, {1, 1, 1, 1}, PadMode::kReflect)));
  CHECK(same(nn::ReplicationPad1d(2)(x), pad(x, {2, 2}, PadMode::kReplicate)));
  CHECK(same(nn::ReplicationPad2d({1, 2, 3, 4})(image),
             pad(image, {1, 2, 3, 4}, PadMode::kReplicate)));
  CHECK(same(nn::CircularPad1d(2)(x), pad(x, {2, 2}, PadMode::kCircular)));
  CHECK(same(nn::CircularPad2d(1)(image), pad(image, {1, 1, 1, 1}, PadMode::kCircular)));
  CHECK(nn::ReflectionPad2d(1).type_name() == "ReflectionPad2d");
  CHECK_THROWS_AS(nn::ZeroPad2d({1, 2}), ValueError);
}

TEST_CASE("losses: modules keep their options") {
  const Tensor p = rand({5}), y = rand({5}), a = randn({5, 3}), b = randn({5, 3}),
               c = randn({5, 3});
  const Tensor sign = tensor({1.0, -1.0, 1.0, 1.0, -1.0});
  constexpr Reduction kSum = Reduction::kSum;
  CHECK(same(nn::BCELoss{{.reduction = kSum}}(p, y),
             binary_cross_entropy(p, y, {.reduction = kSum})));
  CHECK(same(nn::HuberLoss{{.delta = 0.5}}(p, y), huber_loss(p, y, {.delta = 0.5})));
  CHECK(same(nn::KLDivLoss{{.reduction = kSum}}(p, y), kl_div(p, y, {.reduction = kSum})));
  CHECK(same(nn::PoissonNLLLoss{}(p, y), poisson_nll_loss(p, y)));
  CHECK(same(nn::GaussianNLLLoss{}(p, y, y), gaussian_nll_loss(p, y, y)));
  CHECK(same(nn::CosineEmbeddingLoss{{.margin = 0.2}}(a, b, sign),
             cosine_embedding_loss(a, b, sign, {.margin = 0.2})));
  CHECK(same(nn::HingeEmbeddingLoss{}(p, sign), hinge_embedding_loss(p, sign)));
  CHECK(same(nn::MarginRankingLoss{{.margin = 0.5}}(p, y, sign),
             margin_ranking_loss(p, y, sign, {.margin = 0.5})));
  CHECK(same(nn::TripletMarginLoss{{.margin = 2}}(a, b, c),
             triplet_margin_loss(a, b, c, {.margin = 2})));
}

TEST_CASE("InstanceNorm: every channel of every sample is a group of its own") {
  const Tensor x = randn({2, 3, 4, 5});
  nn::InstanceNorm plain(3), affine(3, {.affine = true});
  CHECK(plain.parameters().empty());
  CHECK(affine.parameters().size() == 2);
  CHECK(same(plain(x), group_norm(x, 3)));
  CHECK(same(affine(x), plain(x)));
  CHECK(plain(randn({2, 3, 7})).shape() == Shape{2, 3, 7});
  CHECK_THROWS_AS(plain(randn({2, 4, 5})), ShapeError);
  try {
    plain(randn({2, 3}));
    FAIL("[N,C] has no positions");
  } catch (const ShapeError& e) {  // a layer that nobody holds is named once
    CHECK(e.message() == "InstanceNorm: expected [N,3,…] with positions (x: f32[2,3]@cpu)");
  }
  CHECK_THROWS_AS(nn::InstanceNorm(0), ValueError);
}
