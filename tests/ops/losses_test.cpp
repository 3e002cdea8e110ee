// mse, l1, smooth l1 and binary cross-entropy against the definitions in f64.
#include "lathe/ops/losses.h"

#include "compare.h"
#include "lathe/autograd/autocast.h"
#include "lathe/ops/inplace.h"

using namespace lathe;
using namespace lathe::test;

namespace {

struct Loss {
  std::string name;
  Tensor (*f)(const Tensor& x, const Tensor& y, Reduction reduction);
  double (*reference)(double x, double y);
};
const Loss kLosses[] = {
    {"mse_loss", [](const Tensor& x, const Tensor& y, Reduction r) { return mse_loss(x, y, {r}); },
     [](double x, double y) { return (x - y) * (x - y); }},
    {"l1_loss", [](const Tensor& x, const Tensor& y, Reduction r) { return l1_loss(x, y, {r}); },
     [](double x, double y) { return std::fabs(x - y); }},
    {"smooth_l1_loss",
     [](const Tensor& x, const Tensor& y, Reduction r) {
       return smooth_l1_loss(x, y, {.beta = 0.5, .reduction = r});
     },
     [](double x, double y) {
       const double d = std::fabs(x - y);
       return d < 0.5 ? d * d / 1.0 : d - 0.25;
     }},
    {"bce_with_logits",
     [](const Tensor& x, const Tensor& y, Reduction r) {
       return bce_with_logits(x, y, {.reduction = r});
     },
     [](double x, double y) {
       return -(y * -std::log1p(std::exp(-x)) + (1 - y) * -std::log1p(std::exp(x)));
     }},
};

}  // namespace

TEST_CASE("losses: values agree with the definition in every layout and dtype") {
  manual_seed(7);
  for (const Loss& loss : kLosses) {
    for (const Shape& shape : {Shape{3, 4}, Shape{}, Shape{2, 3, 2}, Shape{0, 2}}) {
      const Tensor wide = randn(shape, {.dtype = kF64}), target = rand(shape, {.dtype = kF64});
      for (const DType dtype : {kF64, kF32, kF16, kBF16}) {
        for (const Layout& layout : layouts()) {
          const Tensor x = layout.apply(wide.to(dtype)), y = target.to(dtype);
          const std::vector<double> xs = x.to_vector<double>(), ys = y.to_vector<double>();
          std::vector<double> want(xs.size());
          double sum = 0;
          for (size_t i = 0; i < xs.size(); ++i) sum += want[i] = loss.reference(xs[i], ys[i]);
          // The steps of a composed loss each round: a few times the tolerance of one op.
          const double tol = 4 * tolerance_of(dtype);
          CHECK_MESSAGE(difference(loss.f(x, y, Reduction::kNone), want, tol).empty(), loss.name);
          CHECK_MESSAGE(difference(loss.f(x, y, Reduction::kSum), {sum}, tol).empty(), loss.name);
          const double mean = sum / static_cast<double>(xs.size());
          CHECK_MESSAGE(difference(loss.f(x, y, Reduction::kMean), {mean}, tol).empty(), loss.name);
        }
      }
    }
    const Autocast half(kCPU, kF16);
    CHECK(loss.f(zeros({2}, {.dtype = kF16}), zeros({2}, {.dtype = kF16}), Reduction::kMean)
              .dtype() == kF32);
  }
}

TEST_CASE("losses: gradients agree with finite differences") {
  manual_seed(8);
  // Apart by 0.6 to 1.6 or by up to 0.4: away from the kinks of l1 (0) and smooth l1 (0.5).
  const Tensor y = f64({3, 4}), x = y + f64_in({3, 4}, 0.6, 1.6) * tensor({1.0, -1.0, 1.0, -0.25});
  for (const Loss& loss : kLosses) {
    for (const Reduction reduction : {Reduction::kNone, Reduction::kMean}) {
      check_gradients(
          {loss.name, [&](const Tensors& in) { return loss.f(in[0], in[1], reduction); }, {x, y}});
    }
  }
  const Tensor p = f64_in({4}, 0.5, 3.0), w = f64_in({3, 1}, 0.5, 3.0);
  const auto weighted = [&](const Tensors& in) {
    return bce_with_logits(in[0], in[1], {.weight = beside(in, w), .pos_weight = beside(in, p)});
  };
  check_gradients({"bce_with_logits weighted", weighted, {f64({3, 4}), f64_in({3, 4}, 0, 1)}});
}

TEST_CASE("losses: gradients at the kinks") {
  const auto gradient = [](auto f) {
    const Tensor x = zeros({3}, {.dtype = kF64, .requires_grad = true});
    f(x).backward();
    return x.grad().to_vector<double>();
  };
  using Values = std::vector<double>;
  const Tensor y = tensor({0.0, 1.0, 0.5});
  CHECK(gradient([&](const Tensor& x) { return l1_loss(x, zeros({3}), {Reduction::kSum}); }) ==
        Values{0, 0, 0});
  CHECK(gradient([&](const Tensor& x) {
          return smooth_l1_loss(x, y, {.reduction = Reduction::kSum});
        }) == Values{0, -1, -0.5});
  CHECK(gradient([&](const Tensor& x) {
          return bce_with_logits(x, y, {.reduction = Reduction::kSum});
        }) == Values{0.5, -0.5, 0});
}

TEST_CASE("bce_with_logits: no overflow, weights") {
  const Tensor x = tensor({1000.0, -1000.0, 1000.0, -1000.0}), y = tensor({1.0, 0.0, 0.0, 1.0});
  CHECK(bce_with_logits(x, y, {.reduction = Reduction::kNone}).to_vector<double>() ==
        std::vector<double>{0, 0, 1000, 1000});
  CHECK(bce_with_logits(x.to(kF32), y.to(kF32), {.reduction = Reduction::kNone})
            .to_vector<double>() == std::vector<double>{0, 0, 1000, 1000});
  const Tensor z = tensor({0.3, -0.2}), t = tensor({1.0, 0.25});
  const Tensor got = bce_with_logits(
      z, t, {.weight = tensor({2.0}), .pos_weight = tensor({3.0}), .reduction = Reduction::kNone});
  const auto want = [](double a, double b) {
    return 2 * (3 * b * std::log1p(std::exp(-a)) + (1 - b) * std::log1p(std::exp(a)));
  };
  CHECK(difference(got, {want(0.3, 1), want(-0.2, 0.25)}, 1e-12).empty());
}

TEST_CASE("losses: errors name the op and the values") {
  CHECK_THROWS_AS(mse_loss(zeros({2}), zeros({3})), ShapeError);
  CHECK_THROWS_WITH_AS(
      l1_loss(zeros({2}), zeros({2}, {.dtype = kI64})),
      doctest::Contains("l1_loss: expected floating dtypes (x: f32[2]@cpu, y: i64[2]@cpu)"),
      DTypeError);
  CHECK_THROWS_WITH_AS(smooth_l1_loss(zeros({2}), zeros({2}), {.beta = -1}),
                       doctest::Contains("beta must not be negative, got -1"), ValueError);
  CHECK_THROWS_WITH_AS(
      bce_with_logits(zeros({2}), zeros({1})),
      doctest::Contains("x and y must have one shape (x: f32[2]@cpu, y: f32[1]@cpu)"), ShapeError);
  CHECK_THROWS_AS(bce_with_logits(zeros({2}), zeros({2}), {.pos_weight = ones({3, 2})}),
                  ShapeError);
}
