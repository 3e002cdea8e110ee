// mse, l1, smooth l1 and binary cross-entropy against the definitions in f64.
#include "lathe/ops/losses/losses.h"

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
    {"huber_loss",
     [](const Tensor& x, const Tensor& y, Reduction r) {
       return huber_loss(x, y, {.delta = 0.5, .reduction = r});
     },
     [](double x, double y) {
       const double d = std::fabs(x - y);
       return d < 0.5 ? d * d / 2 : 0.5 * (d - 0.25);
     }},
    {"kl_div",
     [](const Tensor& x, const Tensor& y, Reduction r) { return kl_div(x, y, {.reduction = r}); },
     [](double x, double y) { return y == 0 ? 0 : y * (std::log(y) - x); }},
    {"poisson_nll_loss",
     [](const Tensor& x, const Tensor& y, Reduction r) {
       return poisson_nll_loss(x, y, {.reduction = r});
     },
     [](double x, double y) { return std::exp(x) - y * x; }},
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
  const Tensor y = f64_in({3, 4}, 0.2, 2.0),
               x = y + f64_in({3, 4}, 0.6, 1.6) * tensor({1.0, -1.0, 1.0, -0.25}, kF64);
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

  const auto bce = [&](const Tensors& in) {
    return binary_cross_entropy(in[0], in[1], {.weight = beside(in, w)});
  };
  const Tensor inside = f64_in({3, 4}, 0.1, 0.9), positive = f64_in({3, 4}, 1.2, 3.0);
  const Tensor target = f64_in({3, 4}, 0.1, 0.9);
  // clang-format off
  const GradientCase more[] = {
      {"binary_cross_entropy", bce, {inside, target}},
      {"binary_cross_entropy_with_logits", [](const Tensors& in) { return binary_cross_entropy_with_logits(in[0], in[1]); }, {f64({3, 4}), target}},
      {"kl_div log", [](const Tensors& in) { return kl_div(in[0], in[1], {.log_target = true, .batch_mean = true}); }, {f64({3, 4}), f64({3, 4})}},
      {"poisson_nll_loss full", [](const Tensors& in) { return poisson_nll_loss(in[0], in[1], {.log_input = false, .full = true}); }, {inside, positive}},
      {"gaussian_nll_loss", [](const Tensors& in) { return gaussian_nll_loss(in[0], in[1], in[2], {.full = true, .reduction = Reduction::kNone}); }, {f64({3, 4}), f64({3, 4}), positive}},
      {"gaussian_nll_loss per row", [](const Tensors& in) { return gaussian_nll_loss(in[0], in[1], in[2]); }, {f64({3, 4}), f64({3, 4}), f64_in({3, 1}, 0.5, 2.0)}},
  };
  // clang-format on
  for (const GradientCase& c : more) check_gradients(c);
}

TEST_CASE("losses: gradients at the kinks") {
  const auto gradient = [](auto f) {
    const Tensor x = zeros({3}, {.dtype = kF64, .requires_grad = true});
    f(x).backward();
    return x.grad().to_vector<double>();
  };
  using Values = std::vector<double>;
  const Tensor y = tensor({0.0, 1.0, 0.5}, kF64);
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
  const Tensor x = tensor({1000.0, -1000.0, 1000.0, -1000.0}, kF64),
               y = tensor({1.0, 0.0, 0.0, 1.0}, kF64);
  CHECK(bce_with_logits(x, y, {.reduction = Reduction::kNone}).to_vector<double>() ==
        std::vector<double>{0, 0, 1000, 1000});
  CHECK(bce_with_logits(x.to(kF32), y.to(kF32), {.reduction = Reduction::kNone})
            .to_vector<double>() == std::vector<double>{0, 0, 1000, 1000});
  const Tensor z = tensor({0.3, -0.2}, kF64), t = tensor({1.0, 0.25}, kF64);
  const Tensor got = bce_with_logits(z, t,
                                     {.weight = tensor({2.0}, kF64),
                                      .pos_weight = tensor({3.0}, kF64),
                                      .reduction = Reduction::kNone});
  const auto want = [](double a, double b) {
    return 2 * (3 * b * std::log1p(std::exp(-a)) + (1 - b) * std::log1p(std::exp(a)));
  };
  CHECK(difference(got, {want(0.3, 1), want(-0.2, 0.25)}, 1e-12).empty());
}

TEST_CASE("losses: the numbers are PyTorch's, also at the ends of probabilities") {
  // torch.nn.functional (1.13) with reduction="none"; the gradients are those of the sum.
  using Values = std::vector<double>;
  const auto gradient = [](const Tensor& loss, const Tensor& x) {
    loss.sum().backward();
    return x.grad();
  };
  const Reduction none = Reduction::kNone;
  const Tensor x = tensor({0.0, 1.0, 0.0, 1.0, 0.25, 0.9}, kF64).requires_grad_();
  const Tensor y = tensor({0.0, 1.0, 1.0, 0.0, 0.5, 0.3}, kF64);
  const Tensor bce = binary_cross_entropy(x, y, {.reduction = none});
  CHECK(difference(bce, {0, 0, 100, 100, 0.8369882167858358, 1.6434177197931799}, 1e-14) == "");
  CHECK(difference(gradient(bce, x), {0, 0, -1e12, 1e12, -1.3333333333333333, 6.666666666666669},
                   1e-9) == "");
  CHECK(binary_cross_entropy(zeros({2}, {.dtype = kF16}), ones({2}, {.dtype = kF16}))
            .item<double>() == 100);

  const Tensor logx = tensor({-1.0, -2.0, -0.5}, kF64), p = tensor({0.2, 0.0, 0.8}, kF64);
  CHECK(difference(kl_div(logx, p, {.reduction = none}),
                   {-0.12188758248682008, 0, 0.22148515894863224}, 1e-14) == "");
  CHECK(difference(
            kl_div(logx, tensor({-0.5, -3.0, 0.0}, kF64), {.log_target = true, .reduction = none}),
            {0.3032653298563167, -0.049787068367863944, 0.5}, 1e-14) == "");
  const Tensor two = expand(logx, {2, 3});
  CHECK(difference(kl_div(two, expand(p, {2, 3}), {.batch_mean = true}), {0.09959757646181216},
                   1e-14) == "");

  CHECK(difference(poisson_nll_loss(tensor({0.5, 1.0, 2.0}, kF64), tensor({1.0, 0.0, 4.0}, kF64),
                                    {.log_input = false, .full = true, .reduction = none}),
                   {1.1931471605599455, 1, 2.3846744160043993}, 1e-14) == "");
  const Tensor var = tensor({0.5, 1e-9, 2.0}, kF64).requires_grad_();
  const Tensor gauss =
      gaussian_nll_loss(tensor({0.5, 1.0, 2.0}, kF64), tensor({1.0, 0.0, 4.0}, kF64), var,
                        {.full = true, .reduction = none});
  CHECK(difference(gauss, {0.8223649429247, 499994.01118325425, 2.2655121234846454}, 1e-12) == "");
  CHECK(difference(gradient(gauss, var), {0.5, -499999500000.0, -0.25}, 1e-12) == "");
  const Tensor h = tensor({0.0, 0.25, 0.5, 1.0, -0.5, 3.0}, kF64).requires_grad_();
  const Tensor huber =
      huber_loss(h, zeros({6}, {.dtype = kF64}), {.delta = 0.5, .reduction = none});
  CHECK(huber.to_vector<double>() == Values{0, 0.03125, 0.125, 0.375, 0.125, 1.375});
  CHECK(gradient(huber, h).to_vector<double>() == Values{0, 0.25, 0.5, 0.5, -0.5, 0.5});
}

TEST_CASE("losses: nothing broadcasts") {
  // [N,1] against [N] is the mistake that otherwise goes unnoticed: the model learns the mean.
  const Tensor x = full({4, 1}, 0.5), y = full({4}, 0.5);
  for (const Loss& loss : kLosses) {
    CHECK_THROWS_WITH_AS(
        loss.f(x, y, Reduction::kMean),
        doctest::Contains(concat(loss.name,
                                 ": x and y must have one shape; losses do not broadcast (x: "
                                 "f32[4,1]@cpu, y: f32[4]@cpu)")
                              .c_str()),
        ShapeError);
  }
  CHECK_THROWS_AS(binary_cross_entropy(x, y), ShapeError);
  CHECK_THROWS_AS(gaussian_nll_loss(x, y, y), ShapeError);
  CHECK_THROWS_AS(gaussian_nll_loss(x, x, y), ShapeError);
}

TEST_CASE("losses: errors name the op and the values") {
  CHECK_THROWS_WITH_AS(huber_loss(zeros({2}), zeros({2}), {.delta = 0}),
                       doctest::Contains("huber_loss: delta must be positive, got 0"), ValueError);
  CHECK_THROWS_WITH_AS(binary_cross_entropy(tensor({0.5, 1.5}, kF64), tensor({0.5, 0.5}, kF64)),
                       doctest::Contains("element 1 is outside [0, 1]"), ValueError);
  CHECK_THROWS_AS(kl_div(tensor(1.0, kF64), tensor(1.0, kF64), {.batch_mean = true}), ShapeError);
  CHECK_THROWS_AS(gaussian_nll_loss(zeros({2}), zeros({2}), full({2}, -1.0)), ValueError);
  CHECK_THROWS_AS(gaussian_nll_loss(zeros({2}), zeros({2}), ones({2}), {.eps = 0}), ValueError);
  CHECK_THROWS_AS(mse_loss(zeros({2}), zeros({3})), ShapeError);
  CHECK_THROWS_WITH_AS(
      l1_loss(zeros({2}), zeros({2}, {.dtype = kI64})),
      doctest::Contains("l1_loss: expected floating dtypes (x: f32[2]@cpu, y: i64[2]@cpu)"),
      DTypeError);
  CHECK_THROWS_WITH_AS(smooth_l1_loss(zeros({2}), zeros({2}), {.beta = -1}),
                       doctest::Contains("beta must not be negative, got -1"), ValueError);
  CHECK_THROWS_WITH_AS(
      bce_with_logits(zeros({2}), zeros({1})),
      doctest::Contains("bce_with_logits: x and y must have one shape; losses do not broadcast"),
      ShapeError);
  CHECK_THROWS_AS(bce_with_logits(zeros({2}), zeros({2}), {.pos_weight = ones({3, 2})}),
                  ShapeError);
}
