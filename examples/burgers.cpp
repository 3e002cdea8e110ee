// A physics-informed network for Burgers' equation: second derivatives inside the loss, Adam, then LBFGS.
//
//   u_t + u u_x = nu u_xx,   nu = 0.01 / pi,   -1 <= x <= 1,   0 <= t <= 1
//   u(x, 0) = -sin(pi x),    u(-1, t) = u(1, t) = 0
//
// The network is u(x, t). Its loss is the mean square of the equation's residual at random points, plus that of the initial
// and boundary values. The known solution (Cole and Hopf) is computed by quadrature and gives the error.
// ref: Raissi, Perdikaris and Karniadakis 2019, doi:10.1016/j.jcp.2018.10.045; Basdevant et al. 1986.
//
//   burgers [ADAM_STEPS] [LBFGS_STEPS] [POINTS]
#include <lathe/lathe.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <iomanip>
#include <iostream>
#include <numbers>

namespace nn = lathe::nn;
namespace optim = lathe::optim;
using lathe::Tensor;

constexpr double kPi = std::numbers::pi, kViscosity = 0.01 / kPi;

struct Network : nn::Module {
  nn::ModuleList layers{*this, "layers"};

  Network() {
    for (const auto& [in, out] : {std::pair{2, 20}, {20, 20}, {20, 20}, {20, 20}, {20, 20}, {20, 1}}) {
      auto& layer = layers.add<nn::Linear>(in, out);
      nn::init::xavier_normal_(layer.weight);
      nn::init::zeros_(layer.bias);
    }
  }
  /// [N,2] of x and t → [N,1]
  Tensor forward(const Tensor& xt) override {
    Tensor h = xt;
    for (int64_t i = 0; i < layers.size(); ++i) h = i == 0 ? layers[i](h) : layers[i](h.tanh());
    return h;
  }
};

/// u(x, t) of the known solution: a quotient of two integrals over the real line, by the trapezoidal rule, which converges
/// exponentially for such integrands.
double exact(double x, double t) {
  if (t == 0) return -std::sin(kPi * x);
  const double width = std::sqrt(4 * kViscosity * t), step = 0.005;
  double above = 0, below = 0;
  for (double z = -6; z <= 6; z += step) {
    const double at = x - width * z;
    const double weight = std::exp(-z * z - (std::cos(kPi * at) + 1) / (2 * kPi * kViscosity));
    above -= std::sin(kPi * at) * weight;
    below += weight;
  }
  return above / below;
}

struct Problem {
  Tensor inside;        // [N,2]: where the equation holds
  Tensor edge, values;  // [M,2], [M,1]: initial and boundary values

  explicit Problem(int64_t points) {
    const lathe::TensorOptions f64{.dtype = lathe::kF64};
    inside = lathe::rand({points, 2}, f64) * lathe::tensor({2.0, 1.0}, f64) - lathe::tensor({1.0, 0.0}, f64);
    const int64_t n = 100;
    const Tensor x = lathe::rand({n, 1}, f64) * 2 - 1, t = lathe::rand({n, 1}, f64);
    const Tensor sides = lathe::where(lathe::rand({n, 1}, f64) < 0.5, lathe::full({n, 1}, -1.0, f64), 1.0);
    edge = lathe::cat({lathe::cat({x, lathe::zeros({n, 1}, f64)}, 1), lathe::cat({sides, t}, 1)});
    values = lathe::cat({-lathe::sin(x * kPi), lathe::zeros({n, 1}, f64)});
  }

  Tensor loss(Network& u) const {
    const Tensor xt = inside.detach().requires_grad_();
    const Tensor value = u(xt);
    const Tensor slope = lathe::grad({value.sum()}, {xt}, {.create_graph = true})[0];
    const Tensor u_x = slope.slice(1, 0, 1), u_t = slope.slice(1, 1, 2);
    const Tensor u_xx = lathe::grad({u_x.sum()}, {xt}, {.create_graph = true})[0].slice(1, 0, 1);
    const Tensor residual = u_t + value * u_x - kViscosity * u_xx;
    return residual.square().mean() + lathe::mse_loss(u(edge), values);
  }
};

/// |u - exact| / |exact| in the L2 norm, over a grid of 128 x 50 points.
double relative_error(Network& u) {
  const lathe::NoGrad off;
  std::vector<double> grid, want;
  for (int i = 0; i < 128; ++i) {
    for (int k = 0; k < 50; ++k) {
      const double x = -1 + 2 * (i + 0.5) / 128, t = k / 49.0;
      grid.insert(grid.end(), {x, t});
      want.push_back(exact(x, t));
    }
  }
  const Tensor wanted = lathe::tensor(want).view({-1, 1});
  return ((u(lathe::tensor(grid).view({-1, 2})) - wanted).norm() / wanted.norm()).item<double>();
}

int main(int argc, char** argv) {
  const auto number = [&](int at, int64_t otherwise) { return argc > at ? std::atoll(argv[at]) : otherwise; };
  const int64_t adam_steps = number(1, 1500), lbfgs_steps = number(2, 200), points = number(3, 4000);
  lathe::manual_seed(1);
  const auto began = std::chrono::steady_clock::now();
  const auto report = [&](const char* what, int64_t step, const Tensor& loss) {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    std::cout << std::fixed << std::setprecision(1) << seconds << " s  " << what << ' ' << step << "  loss "
              << std::scientific << std::setprecision(3) << loss.item<double>() << std::endl;
  };

  Network u;
  u.to(lathe::kF64);
  const Problem problem(points);
  optim::Adam adam(u.parameters(), {.lr = 1e-3});
  for (int64_t step = 1; step <= adam_steps; ++step) {
    adam.zero_grad();
    const Tensor loss = problem.loss(u);
    loss.backward();
    adam.step();
    if (step % 500 == 0 || step == adam_steps) report("Adam", step, loss);
  }
  optim::LBFGS lbfgs(u.parameters(), {.max_iter = 20, .history_size = 50, .strong_wolfe = true});
  for (int64_t step = 1; step <= lbfgs_steps; ++step) {
    const Tensor loss = lbfgs.step([&] {
      lbfgs.zero_grad();
      Tensor value = problem.loss(u);
      value.backward();
      return value;
    });
    if (step % 20 == 0 || step == lbfgs_steps) report("LBFGS", step, loss);
  }
  std::cout << "relative L2 error " << std::scientific << relative_error(u) << '\n';
}
