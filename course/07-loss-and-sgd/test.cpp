// Assignment 7: cross-entropy, and SGD with momentum.
#include "tiny/cross_entropy.h"
#include "tiny/sgd.h"

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

int main() {
  Report report;
  report.test(3, "log softmax: exp of a row adds up to 1", [] {
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
  report.test(2, "large scores do not overflow", [] {
    expect_close("of 1000, 1000", values(log_softmax(Tensor({1, 2}, {1000, 1000}))),
                 {-std::log(2), -std::log(2)});
    expect_close("of -1000, -1000", values(log_softmax(Tensor({1, 2}, {-1000, -1000}))),
                 {-std::log(2), -std::log(2)});
  });
  report.test(3, "the loss is the mean over the images of -log p at the label", [] {
    expect_close("p = 1/2", {cross_entropy(Tensor({1, 2}, {5, 5}), {1}).item()}, {std::log(2)});
    const Tensor z({2, 2}, {0, std::log(3), std::log(7), 0});
    expect_close("p = 1/4 and 1/8", {cross_entropy(z, {0, 1}).item()},
                 {(std::log(4) + std::log(8)) / 2});
  });
  report.test(4, "the gradient of the loss agrees with differences", [] {
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
  report.test(2, "plain SGD goes against the gradient", [] {
    expect_close("two steps", steps(1, {2, -1}, {.lr = 0.1}), {0.8, 0.9});
  });
  report.test(2, "momentum keeps what earlier steps did", [] {
    expect_close("three steps", steps(1, {1, 1, 0}, {.lr = 0.1, .momentum = 0.9}),
                 {0.9, 0.71, 0.539});
  });
  report.test(2, "weight decay is a part of the gradient", [] {
    expect_close("two steps", steps(1, {0, 0}, {.lr = 0.1, .momentum = 0.5, .weight_decay = 0.5}),
                 {0.95, 0.8775});
  });
  return report.done();
}
