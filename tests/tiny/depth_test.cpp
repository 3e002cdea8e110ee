// What docs/tour/recipe.md says of deep networks.
#include "depth.h"

#include <doctest/doctest.h>

namespace tiny {
namespace {

TEST_CASE("tour, recipe: a gradient dies in 50 plain layers, and passes the residual ones") {
  CHECK(gradient_through(10, Depth::kPlain) == doctest::Approx(1.1e-4).epsilon(0.05));
  CHECK(gradient_through(50, Depth::kPlain) == doctest::Approx(7e-20).epsilon(0.05));
  CHECK(gradient_through(10, Depth::kKaiming) == doctest::Approx(1.1).epsilon(0.05));
  CHECK(gradient_through(50, Depth::kKaiming) == doctest::Approx(1.8).epsilon(0.05));
  CHECK(gradient_through(10, Depth::kResidual) == doctest::Approx(2.2).epsilon(0.05));
  CHECK(gradient_through(50, Depth::kResidual) == doctest::Approx(40).epsilon(0.05));
}

void check_training(int64_t depth, Depth kind, double loss, double accuracy) {
  CAPTURE(depth);
  const auto [seen_loss, seen_accuracy] = train_deep(depth, kind);
  CHECK(std::abs(seen_loss - loss) < 0.01);
  CHECK(std::abs(seen_accuracy - accuracy) < 0.01);
}

TEST_CASE("tour, recipe: of 30 layers only the residual ones learn") {
  check_training(30, Depth::kPlain, 2.3032, 0.078);
  check_training(30, Depth::kKaiming, 2.1056, 0.212);
  check_training(30, Depth::kResidual, 0.0971, 0.96);
}

TEST_CASE("tour, recipe: ten plain layers learn slowly, ten residual ones as fast as two") {
  check_training(10, Depth::kPlain, 2.3026, 0.078);
  check_training(10, Depth::kKaiming, 1.2393, 0.576);
  check_training(10, Depth::kResidual, 0.0442, 0.976);
}

TEST_CASE("tour, recipe: of two layers the residual ones are hardly better than Kaiming's") {
  check_training(2, Depth::kPlain, 2.0636, 0.382);
  check_training(2, Depth::kKaiming, 0.0346, 0.99);
  check_training(2, Depth::kResidual, 0.0219, 0.986);
}

}  // namespace
}  // namespace tiny
