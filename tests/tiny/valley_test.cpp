// What docs/tour/recipe.md says of a narrow valley, (a² + 25 b²) / 2 from a = 10 and b = 1, and
// docs/tour/one-step.md of the loss along its gradient.
#include <doctest/doctest.h>

#include <array>

#include "../../tiny/net.h"
#include "../../tiny/sgd.h"

namespace tiny {
namespace {

using Place = std::array<double, 2>;

double loss_at(const Place& p) { return (p[0] * p[0] + 25 * p[1] * p[1]) / 2; }

Place after(int64_t steps, double rate, double momentum) {
  const Tensor place = parameter(Tensor({2}, {10, 1}));
  Sgd sgd({place}, {.lr = rate, .momentum = momentum});
  for (int64_t step = 0; step < steps; ++step) {
    sgd.zero_grad();
    backward(sum(place * place * Tensor({2}, {0.5, 12.5})));
    sgd.step();
  }
  return {place.data()[0], place.data()[1]};
}

/// Adam's formula of the page, in a valley along an axis or turned by 45 degrees. The place is given
/// along and across the valley.
Place after_adam(int steps, double rate, bool turned) {
  const double half = std::sqrt(0.5);
  const auto turn = [&](const Place& p) {  // its own inverse
    return turned ? Place{half * (p[0] + p[1]), half * (p[0] - p[1])} : p;
  };
  Place w = turn({10, 1}), m{}, v{};
  for (int t = 1; t <= steps; ++t) {
    const Place at = turn(w), dw = turn({at[0], 25 * at[1]});
    for (int i = 0; i < 2; ++i) {
      m[i] = 0.9 * m[i] + 0.1 * dw[i];
      v[i] = 0.999 * v[i] + 0.001 * dw[i] * dw[i];
      const double root = std::sqrt(v[i]) / std::sqrt(1 - std::pow(0.999, t));
      w[i] -= rate * m[i] / (1 - std::pow(0.9, t)) / (root + 1e-8);
    }
  }
  return turn(w);
}

void check_near(const Place& place, const Place& expected) {
  for (int i = 0; i < 2; ++i) CHECK(std::abs(place[i] - expected[i]) < 1e-9);
}

/// The loss of one-step.md after an update with this rate.
double loss_on_paper(double rate) {
  const Tensor x({1, 1, 3, 3}, {1, 2, 0, 0, 1, 3, 2, 1, 1});
  const Tensor minus_target({1, 1, 2, 2}, {-2, -7, 0, -3}), half({}, {0.5});
  const Tensor w = parameter(Tensor({1, 1, 2, 2}, {1, 0, -1, 2}));
  const auto loss = [&] {
    const Tensor error = conv2d(x, w, {}) + minus_target;
    return sum(error * error) * half;
  };
  backward(loss());
  Sgd({w}, {.lr = rate}).step();
  return loss().item();
}

TEST_CASE("tour, one step: along the gradient the loss is 1 - 2r + 15r²") {
  for (const double rate : {0.0, 0.01, 1.0 / 15, 0.125, 2.0 / 15, 0.2})
    CHECK(loss_on_paper(rate) == doctest::Approx(1 - 2 * rate + 15 * rate * rate));
  CHECK(loss_on_paper(0.125) == 0.984375);
  CHECK(loss_on_paper(0.01) == doctest::Approx(0.9815));
  CHECK(loss_on_paper(1.0 / 15) == doctest::Approx(14.0 / 15));
}

TEST_CASE("tour, recipe: SGD zigzags below the rate 0.08, and leaves the valley above") {
  check_near(after(1, 0.07, 0), {9.3, -0.75});
  check_near(after(2, 0.1, 0), {8.1, 2.25});
  check_near(after(3, 0.04, 0), {8.84736, 0});
  CHECK(after(63, 0.07, 0)[0] > 0.1);
  CHECK(after(64, 0.07, 0)[0] < 0.1);
  CHECK(loss_at(after(10, 0.07, 0)) == doctest::Approx(11.75).epsilon(0.001));
  CHECK(loss_at(after(20, 0.07, 0)) == doctest::Approx(2.74).epsilon(0.002));
}

TEST_CASE("tour, recipe: momentum cancels across the valley and grows along it") {
  check_near(after(1, 0.1, 0.5), {9, -1.5});
  check_near(after(2, 0.1, 0.5), {7.6, 1});
  check_near(after(3, 0.1, 0.5), {6.14, -0.25});
  check_near(after(4, 0.1, 0.5), {4.796, -0.25});
  CHECK(loss_at(after(10, 0.1, 0.5)) == doctest::Approx(0.27).epsilon(0.005));
  CHECK(loss_at(after(20, 0.1, 0.5)) < 0.001);
}

TEST_CASE("tour, recipe: Adam divides the valley away, unless it is turned") {
  CHECK(after_adam(1, 1, false)[0] == doctest::Approx(9));
  CHECK(std::abs(after_adam(1, 1, false)[1]) < 1e-6);
  CHECK(loss_at(after_adam(10, 1, false)) == doctest::Approx(0.75).epsilon(0.005));
  CHECK(loss_at(after_adam(20, 1, false)) == doctest::Approx(4.59).epsilon(0.001));
  CHECK(loss_at(after_adam(10, 1, true)) == doctest::Approx(8.16).epsilon(0.005));
}

}  // namespace
}  // namespace tiny
