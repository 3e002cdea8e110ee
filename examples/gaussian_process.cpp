// Gaussian process regression: a curve through noisy points, with its uncertainty. How smooth the
// curve is and how noisy the points are is learnt, by the likelihood of all points together.
//
// The points y are one sample of a normal distribution whose covariance falls with the distance of
// the x: k(a, b) = scale^2 exp(-(a - b)^2 / (2 length^2)), plus noise^2 on the diagonal. LBFGS finds
// the length, scale and noise with the largest likelihood; its gradients go through the Cholesky
// factor. The curve at other x is the mean of the distribution under the condition of the points.
//
//   gaussian_process [POINTS]
// ref: Rasmussen and Williams 2006, Algorithm 2.1.
#include <lathe/lathe.h>

#include <cmath>
#include <cstdlib>
#include <iostream>
#include <numbers>

namespace linalg = lathe::linalg;
using lathe::Tensor;

struct Process {
  // Logarithms, so that the values stay positive.
  Tensor length = log_of(1.0), scale = log_of(1.0), noise = log_of(0.5);

  static Tensor log_of(double x) {
    return lathe::tensor(std::log(x), lathe::kF64).requires_grad_();
  }

  Tensor covariance(const Tensor& a, const Tensor& b) const {
    const Tensor distance = (a.unsqueeze(-1) - b.unsqueeze(-2)) / length.exp();
    return (2 * scale).exp() * (-0.5 * distance.square()).exp();
  }
  /// The lower triangular factor of the covariance of points with noise.
  Tensor factor(const Tensor& x) const {
    const Tensor one = lathe::eye(x.size(0), x.options());
    return linalg::cholesky(covariance(x, x) + (2 * noise).exp() * one);
  }
  /// -log p(y | x).
  Tensor loss(const Tensor& x, const Tensor& y) const {
    const Tensor l = factor(x), white = linalg::solve_triangular(l, y.unsqueeze(-1));
    const double constant = 0.5 * static_cast<double>(x.size(0)) * std::log(2 * std::numbers::pi);
    return 0.5 * white.square().sum() + l.diagonal().log().sum() + constant;
  }

  struct Prediction {
    Tensor mean, deviation;
  };
  /// The curve at `at`, given the points.
  Prediction predict(const Tensor& x, const Tensor& y, const Tensor& at) const {
    const Tensor l = factor(x), cross = linalg::solve_triangular(l, covariance(x, at));
    const Tensor white = linalg::solve_triangular(l, y.unsqueeze(-1));
    const Tensor mean = (cross * white).sum({0});
    return {mean, ((2 * scale).exp() - cross.square().sum({0})).sqrt()};
  }
};

int main(int argc, char** argv) {
  const int64_t points = argc > 1 ? std::atoll(argv[1]) : 200;
  lathe::manual_seed(1);
  const lathe::TensorOptions f64{.dtype = lathe::kF64};
  const Tensor x = 6 * lathe::rand({points}, f64);
  const Tensor y = (2 * x).sin() + 0.1 * lathe::randn({points}, f64);

  const Process process;
  lathe::optim::LBFGS opt({process.length, process.scale, process.noise}, {.strong_wolfe = true});
  const Tensor before = opt.step([&] {
    opt.zero_grad();
    Tensor loss = process.loss(x, y);
    loss.backward();
    return loss;
  });

  const lathe::NoGrad off;
  std::cout << "-log likelihood " << before.item<double>() << " -> "
            << process.loss(x, y).item<double>() << " in " << opt.evaluations()
            << " evaluations\nlength " << process.length.exp().item<double>() << "  scale "
            << process.scale.exp().item<double>() << "  noise "
            << process.noise.exp().item<double>() << " (the data's: 0.1)\n";
  const Tensor at = lathe::linspace(0.2, 5.8, 50, f64), truth = (2 * at).sin();
  const auto [mean, deviation] = process.predict(x, y, at);
  const Tensor error = (mean - truth).abs();
  std::cout << "error of the curve " << error.square().mean().sqrt().item<double>()
            << "; within two of its deviations at " << (error < 2 * deviation).sum().item<int64_t>()
            << " of 50 places\n";
}
