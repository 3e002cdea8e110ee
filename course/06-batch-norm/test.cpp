// Assignment 6: batch norm and layer norm, and their gradients.
#include "tiny/batch_norm.h"

#include "layer_norm.h"
#include "numbers.h"

using namespace course;
using namespace tiny;

constexpr double kEps = 1e-5;

struct Call {
  Tensor weight, bias, mean, var;
  explicit Call(int64_t channels)
      : weight({channels}, std::vector<double>(channels, 1.0)),
        bias({channels}),
        mean({channels}),
        var({channels}, std::vector<double>(channels, 1.0)) {}
  Tensor operator()(const Tensor& x, bool training = true) {
    return batch_norm(x, weight, bias, mean, var, {.training = training, .eps = kEps});
  }
};

/// Mean, and sum of squares of the deviations, of one channel.
static std::pair<double, double> statistics(const Tensor& x, int64_t channel) {
  const std::vector<double> all = values(x);
  std::vector<double> own;
  const int64_t pixels = x.numel() / x.dim(0) / x.dim(1);
  for (int64_t i = 0; i < x.numel(); ++i)
    if (i / pixels % x.dim(1) == channel) own.push_back(all[i]);
  double mean = 0, squares = 0;
  for (const double value : own) mean += value / own.size();
  for (const double value : own) squares += (value - mean) * (value - mean);
  return {mean, squares};
}

/// The gradients of x, weight and bias for the output's gradient dy.
static std::vector<Tensor> gradients(const Tensor& x, const Tensor& weight, const Tensor& dy,
                                     bool training) {
  const int64_t C = x.dim(1);
  Tensor mean({C}), var({C}, std::vector<double>(C, 0.5));
  const Tensor a = parameter(x), w = parameter(weight), b = parameter(Tensor({C}));
  backward(sum(batch_norm(a, w, b, mean, var, {.training = training, .eps = kEps}) * dy));
  return {grad(a), grad(w), grad(b)};
}

int main() {
  Report report;
  report.test(2, "the output has mean 0 and variance 1 in each channel", [] {
    const Tensor x = made_up({3, 2, 2, 2}, 1), y = Call(2)(x);
    for (int64_t c = 0; c < 2; ++c) {
      const auto [mean, squares] = statistics(y, c);
      const auto [before, squares_before] = statistics(x, c);
      expect_close("mean", {mean}, {0});
      expect_close("variance, of all 12 values", {squares / 12},
                   {squares_before / 12 / (squares_before / 12 + kEps)});
    }
  });
  report.test(2, "the running statistics move a tenth of the way", [] {
    Call call(2);
    const Tensor x = made_up({3, 2, 2, 2}, 1);
    call(x);
    for (int64_t c = 0; c < 2; ++c) {
      const auto [mean, squares] = statistics(x, c);
      expect_close("running mean", {call.mean.data()[c]}, {0.1 * mean});
      expect_close("running variance, of m - 1", {call.var.data()[c]}, {0.9 + 0.1 * squares / 11});
    }
  });
  report.test(1, "eps keeps equal values from a division by 0", [] {
    const Tensor y = Call(1)(Tensor({4, 1}, {2, 2, 2, 2}));
    expect_close("y", values(y), {0, 0, 0, 0});
  });
  report.test(2, "a large mean costs no digits", [] {
    const Tensor y = Call(1)(Tensor({4, 1}, {1e9 - 1, 1e9 + 1, 1e9 - 1, 1e9 + 1}));
    expect_close("y of 1e9 ± 1", values(y), {-1, 1, -1, 1}, 1e-4);
  });
  report.test(2, "the gradients of weight and bias", [] {
    const Tensor x = made_up({3, 2, 2, 2}, 1), weight({2}, {2, -3}), dy = made_up(x.shape(), 5);
    Call call(2);
    const std::vector<double> h = values(call(x)), g = values(dy);
    std::vector<double> dweight(2), dbias(2);
    for (size_t i = 0; i < g.size(); ++i)
      dweight[i / 4 % 2] += g[i] * h[i], dbias[i / 4 % 2] += g[i];
    const std::vector<Tensor> got = gradients(x, weight, dy, true);
    expect_close("dweight", values(got[1]), dweight);
    expect_close("dbias", values(got[2]), dbias);
  });
  report.test(4, "the gradient of x in training agrees with differences", [] {
    Tensor weight({2}, {2, -3}), bias({2}, {1, 2});
    for (const Shape& shape : {Shape{3, 2, 2, 2}, Shape{4, 2}})
      expect_gradients("training", {made_up(shape, 1), weight, bias}, [](const Tensors& in) {
        Tensor mean({2}), var({2});
        return batch_norm(in[0], in[1], in[2], mean, var, {.training = true, .eps = kEps});
      });
  });
  report.test(2, "in training dx has no part along 1", [] {
    const std::vector<Tensor> got =
        gradients(made_up({6, 1}, 1), Tensor({1}, {2}), made_up({6, 1}, 2), true);
    double sum = 0;
    for (const double value : values(got[0])) sum += value;
    expect_close("the sum of dx", {sum}, {0});
  });
  report.test(2, "in evaluation the statistics are constants: dx = weight * s * dy", [] {
    const Tensor x = made_up({3, 1, 2}, 1), dy = made_up({3, 1, 2}, 2);
    const std::vector<Tensor> got = gradients(x, Tensor({1}, {2}), dy, false);
    std::vector<double> expected = values(dy);
    for (double& value : expected) value *= 2 / std::sqrt(0.5 + kEps);
    expect_close("dx", values(got[0]), expected);
  });
  report.test(1, "layer norm: each row has mean 0 and variance 1, then its weights", [] {
    // Deviations of 2 and of 1e8 from the rows' means; weights 3 and 4, biases 1 and 2.
    const Tensor x({2, 2}, {1, 5, 10, 10 + 2e8});
    expect_close("eps 0", values(layer_norm(x, Tensor({2}, {3, 4}), Tensor({2}, {1, 2}), 0)),
                 {-2, 6, -2, 6});
    expect_close("eps 5, a row of the variance 4",
                 values(layer_norm(Tensor({1, 2}, {1, 5}), Tensor({2}, {3, 3}), Tensor({2}), 5)),
                 {-2, 2});
  });
  report.test(2, "layer norm: the gradients agree with differences", [] {
    expect_gradients("x, weight and bias",
                     {made_up({3, 4}, 1), Tensor({4}, {2, -3, 1, 0.5}), made_up({4}, 2)},
                     [](const Tensors& in) { return layer_norm(in[0], in[1], in[2], kEps); });
  });
  return report.done();
}
