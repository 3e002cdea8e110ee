// Assignment 7: cross-entropy, SGD with momentum, and Adam.
#include "tiny/cross_entropy.h"
#include "tiny/loader.h"
#include "tiny/net.h"
#include "tiny/sgd.h"

#include "adam.h"
#include "numbers.h"

using namespace course;
using namespace tiny;

/// The value of one parameter after each of some steps with the gradients given.
static std::vector<double> steps(double begin, const std::vector<double>& gradients,
                                 const SgdOptions& options) {
  const Tensor p = parameter(Tensor({1}, {begin}));
  Sgd sgd({p}, options);
  std::vector<double> out;
  for (const double gradient : gradients) {
    sgd.zero_grad();
    backward(sum(p * Tensor({1}, {gradient})));
    sgd.step();
    out.push_back(p.data()[0]);
  }
  return out;
}

/// The same with Adam, for two parameters. The second has no gradient in the first step.
static std::vector<double> adam_steps(double begin, const std::vector<double>& gradients,
                                      const AdamOptions& options) {
  const Tensor p = parameter(Tensor({1}, {begin})), late = parameter(Tensor({1}, {begin}));
  Adam adam({p, late}, options);
  std::vector<double> out;
  for (const double gradient : gradients) {
    p.meta()->grad = late.meta()->grad = Tensor();
    backward(sum((out.empty() ? p : p + late) * Tensor({1}, {gradient})));
    adam.step();
    out.push_back(p.data()[0]);
    out.push_back(late.data()[0]);
  }
  return out;
}

/// The share of 200 made-up images that a network gets right after 30 steps with others.
static double accuracy_after_training(uint64_t seed) {
  constexpr int64_t kSteps = 30, kBatch = 16;
  const Dataset train = made_up_images(kSteps * kBatch, 2 * seed),
                unseen = made_up_images(200, 2 * seed + 1);
  Generator random(seed);
  Net net(train.height, train.width, train.classes, random);
  Sgd sgd(net.parameters(), {.lr = 0.05, .momentum = 0.9, .weight_decay = 5e-4});
  const auto batch_of = [](const Dataset& set, int64_t begin, int64_t size) {
    std::vector<int64_t> indices(size);
    std::iota(indices.begin(), indices.end(), begin);
    return make_batch(set, indices);
  };
  for (int64_t step = 0; step < kSteps; ++step) {
    const Batch batch = batch_of(train, step * kBatch, kBatch);
    sgd.zero_grad();
    backward(cross_entropy(net.forward(batch.x, true), batch.labels));
    sgd.step();
  }
  const NoGrad off;
  const Batch batch = batch_of(unseen, 0, unseen.size());
  const std::vector<double> scores = values(net.forward(batch.x, false));
  double right = 0;
  for (size_t n = 0; n < batch.labels.size(); ++n) {
    const auto row = scores.begin() + n * unseen.classes;
    right += std::max_element(row, row + unseen.classes) - row == batch.labels[n];
  }
  return right / unseen.size();
}

int main() {
  Report report;
  report.test(2, "log softmax: exp of a row adds up to 1", [] {
    expect_close("of two equal scores", values(log_softmax(Tensor({1, 2}, {3, 3}))),
                 {-std::log(2), -std::log(2)});
    expect_close("of 0, log 3", values(log_softmax(Tensor({1, 2}, {0, std::log(3)}))),
                 {-std::log(4), std::log(0.75)});
    const std::vector<double> log_p = values(log_softmax(made_up({2, 3}, 1)));
    for (int n = 0; n < 2; ++n)
      expect_close(
          "row " + std::to_string(n),
          {std::exp(log_p[3 * n]) + std::exp(log_p[3 * n + 1]) + std::exp(log_p[3 * n + 2])}, {1});
  });
  report.test(1, "large scores do not overflow", [] {
    expect_close("of 1000, 1000", values(log_softmax(Tensor({1, 2}, {1000, 1000}))),
                 {-std::log(2), -std::log(2)});
    expect_close("of the rows -1000, -1000 and 1000, 1000",
                 values(log_softmax(Tensor({2, 2}, {-1000, -1000, 1000, 1000}))),
                 std::vector(4, -std::log(2)));
  });
  report.test(2, "the loss is the mean over the images of -log p at the label", [] {
    expect_close("p = 1/2", {cross_entropy(Tensor({1, 2}, {5, 5}), {1}).item()}, {std::log(2)});
    const Tensor z({2, 2}, {0, std::log(3), std::log(7), 0});
    expect_close("p = 1/4 and 1/8", {cross_entropy(z, {0, 1}).item()},
                 {(std::log(4) + std::log(8)) / 2});
  });
  report.test(2, "the gradient of the loss agrees with differences", [] {
    expect_gradients("3 images, 4 classes", {made_up({3, 4}, 1)}, [](const Tensors& in) {
      return cross_entropy(in[0], {2, 0, 3});
    });
  });
  report.test(1, "the gradient of each image adds up to 0", [] {
    const Tensor z = parameter(made_up({2, 3}, 1));
    backward(cross_entropy(z, {2, 0}));
    const std::vector<double> g = values(grad(z));
    expect_close("rows", {g[0] + g[1] + g[2], g[3] + g[4] + g[5]}, {0, 0});
  });
  report.test(1, "a loss that is a part of a larger one", [] {
    expect_gradients("3 times the loss", {made_up({2, 3}, 1)}, [](const Tensors& in) {
      return cross_entropy(in[0], {2, 0}) * Tensor({}, {3});
    });
  });
  report.test(1, "scores changed after the loss", [] {
    Tensor x({1, 2}, {0, std::log(3)});
    const Tensor z = parameter(x), loss = cross_entropy(z, {0});
    copy_(x, Tensor({1, 2}, {5, 5}));  // z has the same memory
    try {
      backward(loss);
    } catch (const StateError&) {
      return;  // z was saved, and its version tells
    }
    expect_close("dz", values(grad(z)), {-0.75, 0.75});
  });
  report.test(1, "plain SGD goes against the gradient", [] {
    expect_close("two steps", steps(1, {2, -1}, {.lr = 0.1}), {0.8, 0.9});
  });
  report.test(2, "momentum keeps what earlier steps did", [] {
    expect_close("three steps", steps(1, {1, 1, 0}, {.lr = 0.1, .momentum = 0.9}),
                 {0.9, 0.71, 0.539});
    const Tensor p = parameter(Tensor({1}, {1}));
    Sgd sgd({p}, {.lr = 0.1, .momentum = 0.9});
    backward(sum(p));
    sgd.step();
    sgd.step();
    expect_close("the gradient after two steps with it", values(grad(p)), {1});
  });
  report.test(1, "weight decay is a part of the gradient", [] {
    expect_close("two steps", steps(1, {0, 0}, {.lr = 0.1, .momentum = 0.5, .weight_decay = 0.5}),
                 {0.95, 0.8775});
  });
  report.test(1, "Adam: the first step is lr long, whatever the size of the gradient", [] {
    for (const double size : {1e-3, 1.0, 1e3})
      expect_close("p", {adam_steps(1, {-size}, {.lr = 0.1, .eps = 0})[0]}, {1.1});
  });
  report.test(2, "Adam: two steps by its formula, each parameter by its own t", [] {
    // Gradients 1 and 3: m' is 1, then (0.25 + 1.5) / 0.75; v' is 1, then (0.1875 + 2.25) / 0.4375.
    const double first = 0.1 / (1 + 0.5),
                 second = 0.1 * (7 / 3.) / (std::sqrt(2.4375 / 0.4375) + 0.5),
                 late = 0.1 * 3 / (3 + 0.5);
    expect_close("p and the parameter that begins later",
                 adam_steps(1, {1, 3}, {.lr = 0.1, .beta1 = 0.5, .beta2 = 0.75, .eps = 0.5}),
                 {1 - first, 1, 1 - first - second, 1 - late});
  });
  report.test(3, "a network learns, with each of three seeds", [] {
    for (const uint64_t seed : {1, 2, 3}) {
      const double share = accuracy_after_training(seed);
      expect(share >= 0.9, "seed " + std::to_string(seed) + ": an accuracy of " +
                               std::to_string(share) + " after 30 steps, expected 0.9");
    }
  });
  return report.done();
}
