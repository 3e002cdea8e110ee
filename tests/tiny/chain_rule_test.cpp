// What docs/tour/02-the-tape.md says of Jacobians: the function of its example, by differences and by the tape.
#include <doctest/doctest.h>

#include "../../tiny/net.h"

namespace tiny {
namespace {

/// y0 = x0 · x1, y1 = x1 · x2
Tensor example(const Tensor& x) { return slice(x, 0, 0, 2) * slice(x, 0, 1, 3); }

/// The gradient of sum(y · dy) by x.
std::vector<double> gradient(const std::function<Tensor(const Tensor&)>& f, std::vector<double> at,
                             const Tensor& dy) {
  const int64_t size = std::ssize(at);
  const Tensor x = parameter(Tensor({size}, std::move(at)));
  backward(sum(f(x) * dy));
  const Tensor dx = copy_of(grad(x));
  return {dx.data(), dx.data() + size};
}

TEST_CASE("tour, chain rule: the Jacobian by finite differences, column by column") {
  const double expected[3][2] = {{3, 0}, {2, 5}, {0, 3}};
  for (int64_t column = 0; column < 3; ++column) {
    std::vector<double> less{2, 3, 5}, more = less;
    less[column] -= 0.01;
    more[column] += 0.01;
    const Tensor y0 = example(Tensor({3}, less)), y1 = example(Tensor({3}, more));
    for (int64_t row = 0; row < 2; ++row)
      CHECK((y1.data()[row] - y0.data()[row]) / 0.02 == doctest::Approx(expected[column][row]));
  }
}

TEST_CASE("tour, chain rule: the tape multiplies dy by the transposed Jacobian") {
  const auto dx = [](std::vector<double> dy) { return gradient(example, {2, 3, 5}, {{2}, dy}); };
  CHECK(dx({1, 0}) == std::vector<double>{3, 2, 0});
  CHECK(dx({0, 1}) == std::vector<double>{0, 5, 3});
  CHECK(dx({15, 6}) == std::vector<double>{45, 60, 18});
}

TEST_CASE("tour, chain rule: the loss y0 · y1 has the gradient 45, 60, 18") {
  const Tensor x = parameter(Tensor({3}, {2, 3, 5})), y = example(x);
  backward(slice(y, 0, 0, 1) * slice(y, 0, 1, 2));
  const Tensor dx = copy_of(grad(x));
  CHECK(std::vector(dx.data(), dx.data() + 3) == std::vector<double>{45, 60, 18});
}

TEST_CASE("tour, chain rule: the gradient of repeating is a sum, and that of a sum repeats") {
  const auto repeat = [](const Tensor& x) { return expand(x, {3}); };
  CHECK(gradient(repeat, {7}, Tensor({3}, {1, 10, 100})) == std::vector<double>{111});
  CHECK(gradient(sum, {1, 2, 3}, Tensor({}, {5})) == std::vector<double>{5, 5, 5});
}

}  // namespace
}  // namespace tiny
