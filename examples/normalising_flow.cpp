// A normalising flow: it learns the density of points, and makes new ones.
//
// The flow bends the plane until the points look like a sample of N(0, 1). Each coupling leaves one
// coordinate as it is and moves and stretches the other one, by as much as a network says that sees
// only the first. So the way back is as easy, and the density changes by the factor of the stretch:
// log p(x) = log N(z; 0, 1) + the sum of the logarithms of all stretches.
//
//   normalising_flow [STEPS [WEIGHTS]]      WEIGHTS: a file with the weights to begin from
// ref: Dinh, Sohl-Dickstein and Bengio 2017 (arXiv:1605.08803).
#include <lathe/lathe.h>
#include <lathe/nn/distributions/distributions.h>

#include <cstdlib>
#include <iostream>
#include <numbers>

namespace nn = lathe::nn;
namespace dist = lathe::distributions;
using lathe::Tensor;

/// Two coordinates, one of which the other moves and stretches.
struct Coupling : nn::Module {
  explicit Coupling(int64_t column) : fixed(column) {}
  nn::Linear first{*this, "first", 1, 64}, second{*this, "second", 64, 64},
      last{*this, "last", 64, 2};
  int64_t fixed;

  struct Change {
    Tensor log_stretch, shift;  // [N,1]
  };
  Change change(const Tensor& x) {
    const Tensor y = last(second(first(x).relu()).relu());
    return {y.narrow(1, 0, 1).tanh() * 2, y.narrow(1, 1, 1)};
  }
  /// Columns of a point, the fixed one first.
  Tensor column(const Tensor& x, int64_t k) const { return x.narrow(1, (fixed + k) % 2, 1); }
  Tensor point(const Tensor& a, const Tensor& b) const {
    return fixed == 0 ? lathe::cat({a, b}, 1) : lathe::cat({b, a}, 1);
  }
};

struct Flow : nn::Module {
  nn::ListOf<Coupling> couplings{*this, "couplings"};
  dist::Independent base{dist::Normal(lathe::zeros({2}), 1.0), 1};

  Flow() {
    for (int64_t i = 0; i < 8; ++i) couplings.add(i % 2);
  }
  Tensor log_prob(Tensor x) {
    Tensor stretch = lathe::zeros({x.size(0)});
    for (Coupling& c : couplings) {
      const auto [log_stretch, shift] = c.change(c.column(x, 0));
      x = c.point(c.column(x, 0), c.column(x, 1) * log_stretch.exp() + shift);
      stretch = stretch + log_stretch.squeeze(1);
    }
    return base.log_prob(x) + stretch;
  }
  Tensor sample(int64_t count) {
    Tensor x = base.sample({count});
    for (int64_t i = couplings.size(); i-- > 0;) {
      Coupling& c = couplings[i];
      const auto [log_stretch, shift] = c.change(c.column(x, 0));
      x = c.point(c.column(x, 0), (c.column(x, 1) - shift) * (-log_stretch).exp());
    }
    return x;
  }
};

/// Two half circles that reach into each other: [N,2].
Tensor moons(int64_t count) {
  const Tensor angle = std::numbers::pi * lathe::rand({count, 1});
  const Tensor side = (lathe::rand({count, 1}) < 0.5).to(lathe::kF32) * 2 - 1;
  const Tensor x = angle.cos() * side + 0.5 * side, y = angle.sin() * side - 0.25 * side;
  return lathe::cat({x, y}, 1) + 0.08 * lathe::randn({count, 2});
}

/// The mean distance of points to the nearest of 2000 of the data.
float distance_to_data(const Tensor& x) {
  return lathe::cdist(x, moons(2000)).amin({1}).mean().item<float>();
}

int main(int argc, char** argv) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 2000;
  lathe::manual_seed(1);
  Flow flow;
  if (argc > 2) nn::load(flow, argv[2]);
  lathe::manual_seed(2);  // the points are the same for every flow
  std::cout.precision(8);
  lathe::optim::Adam opt(flow.parameters(), {.lr = 2e-3});
  for (int step = 1; step <= steps; ++step) {
    opt.zero_grad();
    const Tensor loss = -flow.log_prob(moons(256)).mean();
    loss.backward();
    opt.step();
    if (step <= 10 || step % 500 == 0)
      std::cout << "step " << step << "  loss " << loss.item<float>() << std::endl;
  }
  const lathe::NoGrad off;
  std::cout << "nats per new point " << -flow.log_prob(moons(5000)).mean().item<float>()
            << "; distance of a made point to the data " << distance_to_data(flow.sample(1000))
            << ", of new data " << distance_to_data(moons(1000)) << '\n';
}
