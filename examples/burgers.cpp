// A physics-informed network for Burgers' equation: second derivatives inside the loss, Adam, then
// LBFGS.
//
//   u_t + u u_x = nu u_xx,   nu = 0.01 / pi unless given,   -1 <= x <= 1,   0 <= t <= 1
//   u(x, 0) = -sin(pi x),    u(-1, t) = u(1, t) = 0
//
// The network is u(x, t). Its loss is the mean square of the equation's residual at random points,
// plus that of the initial and boundary values: it sees no value of the solution inside. The known
// solution (Cole and Hopf), computed by quadrature, gives the error. A steep front forms at x = 0;
// the error stays large until the network has found it. All in f64, because LBFGS goes on where the
// rounding of f32 would end it. Writes burgers.ppm, a picture of u: t to the right, x upwards.
// ref: Raissi, Perdikaris and Karniadakis 2019, doi:10.1016/j.jcp.2018.10.045; Basdevant et al.
// 1986.
//
//   burgers [ADAM_STEPS] [LBFGS_ITERATIONS] [POINTS] [NU_TIMES_PI]
#include <lathe/lathe.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <numbers>

namespace nn = lathe::nn;
namespace optim = lathe::optim;
using lathe::Tensor;

constexpr double kPi = std::numbers::pi;

struct Network : nn::Module {
  nn::ListOf<nn::Linear> layers{*this, "layers"};

  Network() {
    constexpr int64_t kHidden = 5, kWidth = 20;
    for (int64_t i = 0; i <= kHidden; ++i) {
      nn::Linear& layer = layers.add(i == 0 ? 2 : kWidth, i == kHidden ? 1 : kWidth);
      nn::init::xavier_normal_(layer.weight);
      nn::init::zeros_(layer.bias);
    }
  }
  /// [N,2] of x and t → [N,1]
  Tensor forward(const Tensor& xt) override {
    Tensor h = layers[0](xt);
    for (int64_t i = 1; i < layers.size(); ++i) h = layers[i](h.tanh());
    return h;
  }
};

/// u(x, t) of the known solution: a quotient of two integrals over the real line, by the
/// trapezoidal rule, which converges exponentially for such integrands. At t = 1 their weight lies
/// up to |z| = 9 away from 0.
double exact(double x, double t, double nu) {
  if (t == 0) return -std::sin(kPi * x);
  const double width = std::sqrt(4 * nu * t), step = 0.02;
  double above = 0, below = 0;
  for (double z = -16; z <= 16; z += step) {
    const double at = x - width * z;
    const double weight = std::exp(-z * z - (std::cos(kPi * at) + 1) / (2 * kPi * nu));
    above -= std::sin(kPi * at) * weight;
    below += weight;
  }
  return above / below;
}

struct Problem {
  Tensor inside;        // [N,2]: where the equation holds
  Tensor edge, values;  // [M,2], [M,1]: initial and boundary values
  double nu;

  Problem(int64_t points, double viscosity) : nu(viscosity) {
    const lathe::TensorOptions f64{.dtype = lathe::kF64};
    // A Latin hypercube: each coordinate has one point in each of N equal intervals.
    const auto spread = [&] {
      const Tensor order = lathe::randperm(points);  // apart: the operands of + have no order
      return (order + lathe::rand({points}, f64)) / points;
    };
    inside = lathe::stack({spread() * 2 - 1, spread()}, 1);
    const int64_t n = 100;
    const Tensor x = lathe::rand({n, 1}, f64) * 2 - 1, t = lathe::rand({n, 1}, f64);
    const Tensor sides =
        lathe::where(lathe::rand({n, 1}, f64) < 0.5, lathe::full({n, 1}, -1.0, f64), 1.0);
    edge = lathe::cat({lathe::cat({x, lathe::zeros({n, 1}, f64)}, 1), lathe::cat({sides, t}, 1)});
    values = lathe::cat({-lathe::sin(x * kPi), lathe::zeros({n, 1}, f64)});
  }

  Tensor loss(Network& u) const {
    const Tensor xt = inside.detach().requires_grad_();
    const Tensor value = u(xt);
    const Tensor slope = lathe::grad({value.sum()}, {xt}, {.create_graph = true})[0];
    const Tensor u_x = slope.slice(1, 0, 1), u_t = slope.slice(1, 1, 2);
    const Tensor u_xx = lathe::grad({u_x.sum()}, {xt}, {.create_graph = true})[0].slice(1, 0, 1);
    const Tensor residual = u_t + value * u_x - nu * u_xx;
    return residual.square().mean() + lathe::mse_loss(u(edge), values);
  }
};

/// The points (x, t) of a grid, x in the middle of its cells → [rows * cols, 2], row by row
Tensor grid(int64_t rows, int64_t cols) {
  std::vector<double> points;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t k = 0; k < cols; ++k)
      points.insert(points.end(), {1 - 2 * (i + 0.5) / rows, double(k) / (cols - 1)});
  return lathe::tensor(points).view({-1, 2});
}

/// |u - exact| / |exact| in the L2 norm, over a grid of 128 x 50 points.
double relative_error(Network& u, double nu) {
  const lathe::NoGrad off;
  const Tensor points = grid(128, 50);
  const std::vector<double> at = points.to_vector<double>();
  std::vector<double> want;
  for (size_t i = 0; i < at.size(); i += 2) want.push_back(exact(at[i], at[i + 1], nu));
  const Tensor wanted = lathe::tensor(want).view({-1, 1});
  return ((u(points) - wanted).norm() / wanted.norm()).item<double>();
}

/// Writes u as a picture without compression: blue is -1, white 0, red 1.
void draw(Network& u, const char* file) {
  const lathe::NoGrad off;
  const int64_t rows = 256, cols = 384;
  std::ofstream out(file, std::ios::binary);
  out << "P6 " << cols << ' ' << rows << " 255\n";
  for (const double value : u(grid(rows, cols)).clamp(-1, 1).to_vector<double>()) {
    const auto shade = [](double x) {
      return static_cast<char>(static_cast<unsigned char>(255 * std::min(1.0, x)));
    };
    out << shade(1 + value) << shade(1 - std::abs(value)) << shade(1 - value);
  }
}

int main(int argc, char** argv) {
  const auto number = [&](int at, int64_t otherwise) {
    return argc > at ? std::atoll(argv[at]) : otherwise;
  };
  const int64_t adam_steps = number(1, 500), iterations = number(2, 3000), points = number(3, 4000);
  const double nu = (argc > 4 ? std::atof(argv[4]) : 0.01) / kPi;
  lathe::manual_seed(1);
  const auto began = std::chrono::steady_clock::now();
  const auto report = [&](const char* what, int64_t step, const Tensor& loss) {
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - began;
    std::cout << std::fixed << std::setprecision(1) << seconds.count() << " s  " << what << ' '
              << step << "  loss " << std::scientific << std::setprecision(2) << loss.item<double>()
              << std::endl;
  };

  Network u;
  u.to(lathe::kF64);
  const Problem problem(points, nu);
  optim::Adam adam(u.parameters(), {.lr = 1e-3});
  for (int64_t step = 1; step <= adam_steps; ++step) {
    adam.zero_grad();
    const Tensor loss = problem.loss(u);
    loss.backward();
    adam.step();
    if (step % 100 == 0 || step == adam_steps) report("Adam", step, loss);
  }
  // Its tolerances are meant for losses near 1. This one goes to 1e-5, so they are set lower.
  optim::LBFGS lbfgs(u.parameters(), {.max_iter = 100,
                                      .tolerance_grad = 1e-9,
                                      .tolerance_change = 1e-14,
                                      .history_size = 50,
                                      .strong_wolfe = true});
  while (lbfgs.iterations() < iterations) {
    const int64_t before = lbfgs.iterations();
    const Tensor loss = lbfgs.step([&] {
      lbfgs.zero_grad();
      Tensor value = problem.loss(u);
      value.backward();
      return value;
    });
    report("LBFGS", lbfgs.iterations(), loss);
    if (lbfgs.iterations() == before) break;  // the tolerances are reached
  }
  draw(u, "burgers.ppm");
  std::cout << "relative L2 error " << std::fixed << std::setprecision(4) << relative_error(u, nu)
            << '\n';
}
