// Layers: shapes, names and initial values of what they hold, and that they call their op with it.
#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "lathe/core/half.h"
#include "lathe/nn/activation.h"
#include "lathe/nn/batch_norm.h"
#include "lathe/nn/containers.h"
#include "lathe/nn/conv.h"
#include "lathe/nn/dropout.h"
#include "lathe/nn/embedding.h"
#include "lathe/nn/embedding_bag.h"
#include "lathe/nn/init.h"
#include "lathe/nn/linear.h"
#include "lathe/nn/losses.h"
#include "lathe/nn/mlp.h"
#include "lathe/nn/norm.h"
#include "lathe/nn/pool2d.h"
#include "lathe/nn/summary.h"
#include "lathe/ops/batch_norm.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/conv1d.h"
#include "lathe/ops/conv2d.h"
#include "lathe/ops/conv_transpose2d.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/group_norm.h"
#include "lathe/ops/layer_norm.h"
#include "lathe/ops/matmul.h"
#include "lathe/ops/random.h"
#include "lathe/ops/reduce.h"

namespace lathe {
namespace {

Tensor random(const Shape& shape) {
  Generator generator(11);
  return randn(shape, {}, &generator);
}

void check_equal(const Tensor& a, const Tensor& b) {
  CHECK(a.shape() == b.shape());
  CHECK(a.to_vector<float>() == b.to_vector<float>());
}

/// Values within ±bound that come close to both ends.
void check_uniform(const Tensor& w, double bound) {
  double low = 0, high = 0;
  for (const double x : w.to_vector<double>()) {
    low = std::min(low, x);
    high = std::max(high, x);
  }
  CHECK(low >= -bound);
  CHECK(high <= bound);
  CHECK(low < -0.8 * bound);
  CHECK(high > 0.8 * bound);
}

TEST_CASE("Linear: y = x w^T + b, U(±1/sqrt(in))") {
  nn::Linear layer(25, 40);
  CHECK(layer.weight.shape() == Shape{40, 25});
  CHECK(layer.bias.shape() == Shape{40});
  check_uniform(layer.weight, 0.2);
  check_uniform(layer.bias, 0.2);
  const Tensor x = random({3, 4, 25});
  check_equal(layer(x), linear(x, layer.weight, layer.bias));
  CHECK(layer.macs({3, 4, 25}, {3, 4, 40}) == 12 * 25 * 40);
  nn::Linear plain(2, 3, {.bias = false});
  CHECK_FALSE(plain.bias.defined());
  CHECK(plain.parameters().size() == 1);
}

TEST_CASE("Conv2d, Conv1d, ConvTranspose2d: weights, values and calls") {
  nn::Conv2d conv(4, 6, {.kernel = {3, 5}, .stride = {1, 2}, .pad = {1, 2}, .groups = 2});
  CHECK(conv.weight.shape() == Shape{6, 2, 3, 5});
  check_uniform(conv.weight, 1 / std::sqrt(30.0));
  const Tensor x = random({2, 4, 7, 9});
  check_equal(conv(x), conv2d(x, conv.weight,
                              {.bias = conv.bias, .stride = {1, 2}, .pad = {1, 2}, .groups = 2}));
  CHECK(conv.macs(x.shape(), {2, 6, 7, 5}) == 2 * 6 * 7 * 5 * 30);

  nn::Conv1d line(3, 4, {.kernel = 3, .pad = 2, .dilation = 2, .bias = false});
  CHECK(line.weight.shape() == Shape{4, 3, 3});
  CHECK_FALSE(line.bias.defined());
  const Tensor s = random({2, 3, 8});
  check_equal(line(s), conv1d(s, line.weight, {.pad = 2, .dilation = 2}));

  nn::ConvTranspose2d up(4, 6, {.kernel = 3, .stride = 2, .pad = 1, .output_pad = 1, .groups = 2});
  CHECK(up.weight.shape() == Shape{4, 3, 3, 3});
  check_equal(up(x), conv_transpose2d(
                         x, up.weight,
                         {.bias = up.bias, .stride = 2, .pad = 1, .output_pad = 1, .groups = 2}));
  CHECK(up(x).shape() == Shape{2, 6, 14, 18});

  CHECK_THROWS_WITH_AS(nn::Conv2d(3, 4, {.pad = 1}),
                       doctest::Contains("kernel must be set and positive, got 0"), ValueError);
  CHECK_THROWS_WITH_AS(nn::Conv2d(3, 4, {.kernel = 1, .groups = 2}),
                       doctest::Contains("2 groups do not divide 3 input and 4 output channels"),
                       ValueError);
  CHECK_THROWS_WITH_AS(nn::Conv2d(0, 4, {.kernel = 1}),
                       doctest::Contains("must be positive, got 0 and 4"), ValueError);
}

TEST_CASE("BatchNorm2d: statistics move in training only, and the batches are counted") {
  nn::BatchNorm2d bn(3);
  CHECK(bn.weight.to_vector<float>() == std::vector<float>(3, 1.f));
  CHECK(bn.bias.to_vector<float>() == std::vector<float>(3, 0.f));
  CHECK(bn.num_batches_tracked.dtype() == kI64);
  const Tensor x = random({4, 3, 5, 5});
  const Tensor mean = zeros({3}), var = ones({3});
  check_equal(bn(x), batch_norm(x, bn.weight, bn.bias, mean, var, {.training = true}));
  check_equal(bn.running_mean, mean);
  check_equal(bn.running_var, var);
  bn(x);
  CHECK(bn.num_batches_tracked.item<int64_t>() == 2);
  bn.eval();
  const auto before = bn.running_var.to_vector<float>();
  check_equal(bn(x), batch_norm(x, bn.weight, bn.bias, bn.running_mean, bn.running_var));
  CHECK(bn.running_var.to_vector<float>() == before);
  CHECK(bn.num_batches_tracked.item<int64_t>() == 2);
  bn.train();
  bn(zeros({0, 3, 5, 5}));  // moves no statistics
  CHECK(bn.running_var.to_vector<float>() == before);
  CHECK(bn.num_batches_tracked.item<int64_t>() == 3);
}

TEST_CASE("BatchNorm: without momentum the running mean is the mean of all batches") {
  nn::BatchNorm1d bn(2, {.momentum = std::nullopt});
  Generator generator(5);
  std::vector<double> sum(2);
  for (int batch = 0; batch < 4; ++batch) {
    const Tensor x = randn({6, 2}, {}, &generator);
    bn(x);
    const auto means = x.mean({0}).to_vector<double>();
    for (size_t c = 0; c < 2; ++c) sum[c] += means[c];
  }
  for (size_t c = 0; c < 2; ++c) {
    CHECK(bn.running_mean.to_vector<double>()[c] == doctest::Approx(sum[c] / 4).epsilon(1e-6));
  }
}

TEST_CASE("BatchNorm: a failed forward counts nothing; options drop parameters and statistics") {
  nn::BatchNorm2d bn(3);
  CHECK_THROWS_AS(bn(random({1, 3, 1, 1})), ShapeError);  // one value per channel
  CHECK(bn.num_batches_tracked.item<int64_t>() == 0);
  CHECK_THROWS_WITH_AS(bn(random({4, 3})),
                       doctest::Contains("BatchNorm2d: expected [N,C,H,W] (x: f32[4,3]@cpu)"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(nn::BatchNorm1d(3)(random({4, 3, 2, 2})),
                       doctest::Contains("BatchNorm1d: expected"), ShapeError);
  nn::BatchNorm2d bare(3, {.affine = false, .track_running_stats = false});
  CHECK(bare.state_dict().empty());
  bare.eval();
  const Tensor x = random({4, 3, 2, 2});
  check_equal(bare(x), batch_norm(x, {}, {}, {}, {}, {.training = true}));
}

TEST_CASE("BatchNorm2d: the fused forms equal the plain ones, statistics and hooks included") {
  nn::BatchNorm2d fused(3), plain(3);
  int calls = 0;
  fused.register_forward_hook([&](nn::Module&, const Tensor&, const Tensor&) {
    ++calls;
    return Tensor();
  });
  const Tensor x = random({2, 3, 4, 4}), r = zeros({2, 3, 4, 4});
  check_equal(fused.relu(x), relu(plain(x)));
  check_equal(fused.add_relu(x, r), relu(plain(x)));
  check_equal(fused.running_var, plain.running_var);
  CHECK(fused.num_batches_tracked.item<int64_t>() == 2);
  CHECK(calls == 2);
}

TEST_CASE("BatchNorm2d: half input with f32 parameters after half()") {
  nn::BatchNorm2d bn(3);
  bn.half();
  const Tensor y = bn(random({2, 3, 4, 4}).to(kF16));
  CHECK(y.dtype() == kF16);
  CHECK(bn.weight.dtype() == kF32);
}

TEST_CASE("activations, pooling, Flatten and Identity call their ops") {
  const Tensor x = random({2, 3, 6, 6});
  check_equal(nn::ReLU()(x), relu(x));
  check_equal(nn::LeakyReLU(0.2)(x), leaky_relu(x, 0.2));
  check_equal(nn::GELU()(x), gelu(x));
  check_equal(nn::SiLU()(x), silu(x));
  check_equal(nn::Tanh()(x), tanh(x));
  check_equal(nn::Sigmoid()(x), sigmoid(x));
  check_equal(nn::Softmax(1)(x), softmax(x, 1));
  check_equal(nn::MaxPool2d({.kernel = 3, .stride = 2})(x),
              max_pool2d(x, {.kernel = 3, .stride = 2}));
  check_equal(nn::AvgPool2d({.kernel = 2})(x), avg_pool2d(x, {.kernel = 2}));
  check_equal(nn::AdaptiveAvgPool2d(1)(x), adaptive_avg_pool2d(x, 1));
  check_equal(nn::Upsample({.scale = 2})(x), upsample(x, {.scale = 2}));
  CHECK(nn::Flatten()(x).shape() == Shape{2, 108});
  CHECK(nn::Flatten({.first = 0})(x).shape() == Shape{216});
  CHECK(nn::Identity()(x).is_same(x));

  nn::Module parent;
  nn::ReLU act(parent, "act");
  CHECK(parent.named_children()[0].first == "act");
}

TEST_CASE("MLP: the Sequential of its layers, in values, gradients and keys") {
  for (const Activation activation : {Activation::kRelu, Activation::kGelu}) {
    nn::MLP mlp(5, {7, 6, 3}, {.activation = activation});
    nn::Sequential apart;
    for (const auto& [in, out] : {std::pair{5, 7}, {7, 6}, {6, 3}}) {
      if (in != 5 && activation == Activation::kRelu) apart.add<nn::ReLU>();
      if (in != 5 && activation == Activation::kGelu) apart.add<nn::GELU>();
      apart.add<nn::Linear>(in, out);
    }
    apart.load_state_dict(mlp.state_dict());  // strict: the keys are the same
    const Tensor x = random({2, 4, 5});
    check_equal(mlp(x), apart(x));
    mlp(x).square().sum().backward();
    apart(x).square().sum().backward();
    for (size_t i = 0; i < 6; ++i) {
      check_equal(mlp.parameters()[i].grad(), apart.parameters()[i].grad());
    }
    CHECK(nn::summary(mlp, {2, 5}).macs == nn::summary(apart, {2, 5}).macs);
  }
  nn::MLP plain(5, {3}, {.bias = false});
  CHECK(plain.parameters().size() == 1);
  check_equal(plain(ones({1, 5})), linear(ones({1, 5}), plain.layers()[0]->weight));
  CHECK_THROWS_AS(nn::MLP(5, {}), ValueError);
}

TEST_CASE("LayerNorm, GroupNorm: weight 1, bias 0, and their op") {
  const Tensor x = random({2, 4, 3, 5});
  nn::LayerNorm layer({3, 5});
  CHECK(layer.weight.shape() == Shape{3, 5});
  nn::init::constant_(layer.weight, 2);
  nn::init::constant_(layer.bias, 1);
  check_equal(layer(x), layer_norm(x, {3, 5}, {.weight = layer.weight, .bias = layer.bias}));
  nn::GroupNorm group(2, 4, {.eps = 0.1});
  CHECK(group.bias.to_vector<float>() == std::vector<float>(4, 0.f));
  check_equal(group(x), group_norm(x, 2, {.eps = 0.1}));
  CHECK(nn::LayerNorm({5}, {.affine = false}).parameters().empty());
  CHECK_THROWS_WITH_AS(nn::GroupNorm(3, 4), doctest::Contains("3 groups do not divide 4 channels"),
                       ValueError);
}

TEST_CASE("Dropout: drops in training, is the input itself in evaluation") {
  Generator generator(1);
  nn::Dropout drop(0.25, &generator);
  const Tensor x = ones({1000});
  const auto y = drop(x).to_vector<float>();
  int zeros = 0;
  for (const float v : y) {
    CHECK((v == 0.f || v == doctest::Approx(1 / 0.75)));
    zeros += v == 0.f;
  }
  CHECK(std::abs(zeros - 250) < 70);  // 5 standard deviations of a binomial
  drop.eval();
  CHECK(drop(x).is_same(x));
  CHECK_THROWS_WITH_AS(nn::Dropout(1.5), doctest::Contains("p must be in [0,1], got 1.5"),
                       ValueError);
}

TEST_CASE("Embedding: rows by number, N(0,1), and a padding row of zeros") {
  nn::Embedding table(50, 40, {.padding_index = 3});
  CHECK(table.weight.shape() == Shape{50, 40});
  CHECK(table.weight[3].to_vector<float>() == std::vector<float>(40, 0.f));
  const Tensor rows = table(tensor({3, 7}, {.dtype = kI64}));
  CHECK(rows.shape() == Shape{2, 40});
  check_equal(rows[1], table.weight[7]);
  sum(square(rows + 1.0)).backward();
  CHECK(table.weight.grad()[3].to_vector<float>() == std::vector<float>(40, 0.f));
  CHECK(table.weight.grad()[7].to_vector<float>()[0] != 0.f);
  const nn::Embedding from_the_end(50, 40, {.padding_index = -2});
  CHECK(from_the_end.weight[48].to_vector<float>() == std::vector<float>(40, 0.f));
  CHECK(from_the_end.weight[49].to_vector<float>()[0] != 0.f);
  CHECK_THROWS_WITH_AS(nn::Embedding(5, 2, {.padding_index = 5}),
                       doctest::Contains("must be in [-5,5), got 5"), ValueError);
}

TEST_CASE("EmbeddingBag: bags of rows, N(0,1), and a padding row of zeros in none of them") {
  nn::EmbeddingBag bag(50, 40, {.mode = EmbeddingBagMode::kSum, .padding_index = 3});
  CHECK(bag.weight[3].to_vector<float>() == std::vector<float>(40, 0.f));
  CHECK(std::abs(bag.weight.mean().item<float>()) < 0.12f);  // 5 standard deviations
  CHECK(bag.state_dict().size() == 1);
  CHECK(bag.named_parameters()[0].first == "weight");
  const Tensor rows = bag(tensor({{3, 7}, {8, 9}}));
  CHECK(rows.shape() == Shape{2, 40});
  check_equal(rows[0], bag.weight[7]);
  check_equal(bag(tensor({7, 8, 9}), tensor({0, 1})), rows);
  check_equal(bag(tensor({{7, 8}}), {}, tensor({{2.f, 0.f}}))[0], bag.weight[7] * 2);
  sum(square(rows + 1.0)).backward();
  CHECK(bag.weight.grad()[3].to_vector<float>() == std::vector<float>(40, 0.f));
  CHECK_THROWS_WITH_AS(nn::EmbeddingBag(5, 2, {.padding_index = 5}),
                       doctest::Contains("must be in [-5,5), got 5"), ValueError);
  CHECK_THROWS_AS(nn::EmbeddingBag(0, 2), ValueError);
}

TEST_CASE("losses keep their options") {
  const Tensor logits = random({4, 3}), labels = tensor({0, 2, 1, 0}, {.dtype = kI64});
  check_equal(nn::CrossEntropyLoss{{.label_smoothing = 0.1}}(logits, labels),
              cross_entropy(logits, labels, {.label_smoothing = 0.1}));
  check_equal(nn::NLLLoss{}(logits, labels), nll_loss(logits, labels));
  const Tensor y = zeros({4, 3});
  check_equal(nn::MSELoss{{.reduction = Reduction::kSum}}(logits, y),
              mse_loss(logits, y, {.reduction = Reduction::kSum}));
  check_equal(nn::L1Loss{}(logits, y), l1_loss(logits, y));
  check_equal(nn::BCEWithLogitsLoss{}(logits, y), bce_with_logits(logits, y));
}

double std_of(const Tensor& w) {
  double sum = 0;
  for (const double x : w.to_vector<double>()) sum += x * x;
  return std::sqrt(sum / static_cast<double>(w.numel()));
}

TEST_CASE("init: bounds and standard deviations follow the fans") {
  Generator generator(3);
  const Tensor w = zeros({40, 20, 3, 3});
  w.requires_grad_();
  CHECK(nn::init::fans_of(w.shape()).in == 180);
  CHECK(nn::init::fans_of(w.shape()).out == 360);
  // 7,200 values: the sample's standard deviation is within 5 standard errors, 5 / sqrt(2 * 7200)
  // = 4.2 %, of the formula.
  nn::init::kaiming_normal_(w, {.mode = nn::init::kFanOut, .generator = &generator});
  CHECK(std_of(w) == doctest::Approx(std::sqrt(2.0 / 360)).epsilon(0.042));
  nn::init::kaiming_normal_(w, {.slope = 0.5, .generator = &generator});
  CHECK(std_of(w) == doctest::Approx(std::sqrt(2 / 1.25 / 180)).epsilon(0.042));
  nn::init::kaiming_uniform_(w, {.slope = std::sqrt(5.0), .generator = &generator});
  check_uniform(w, 1 / std::sqrt(180.0));
  nn::init::xavier_uniform_(w, {.gain = 2, .generator = &generator});
  check_uniform(w, 2 * std::sqrt(6.0 / 540));
  nn::init::xavier_normal_(w, {.generator = &generator});
  CHECK(std_of(w) == doctest::Approx(std::sqrt(2.0 / 540)).epsilon(0.042));
  nn::init::constant_(w, 0.5);
  CHECK(std_of(w) == 0.5);
  CHECK(std_of(nn::init::zeros_(w)) == 0);
  CHECK(std_of(nn::init::ones_(w)) == 1);
  CHECK(w.is_leaf());
  CHECK(w.grad_fn() == "");
  CHECK_THROWS_WITH_AS(nn::init::kaiming_normal_(ones({3})),
                       doctest::Contains("needs 2 dimensions to have a fan"), ShapeError);
}

TEST_CASE("Conv2d: a weight left open takes its random numbers all the same") {
  manual_seed(9);
  nn::Conv2d filled(3, 5, {.kernel = 3});
  const Generator::State after = default_generator().state();
  manual_seed(9);
  nn::Conv2d open(3, 5, {.kernel = 3, .init = false});
  CHECK(open.weight.shape() == filled.weight.shape());
  CHECK(open.weight.requires_grad());
  check_equal(open.bias, filled.bias);
  CHECK(default_generator().state() == after);
}

TEST_CASE("init: the same seed gives the same model") {
  manual_seed(9);
  nn::Linear a(5, 5);
  manual_seed(9);
  nn::Linear b(5, 5), c(5, 5);
  check_equal(a.weight, b.weight);
  check_equal(a.bias, b.bias);
  CHECK(a.weight.to_vector<float>() != c.weight.to_vector<float>());
}

}  // namespace
}  // namespace lathe
