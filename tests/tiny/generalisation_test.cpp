// What docs/tour/generalisation.md says of its trainings.
#include "generalisation.h"

#include <doctest/doctest.h>

namespace tiny {
namespace {

// A first weight that differs by 1e-6 changes a loss by 0.0005 and an accuracy by 0.005 at most.
void check_near(const Look& seen, const Look& expected) {
  CAPTURE(seen.loss);
  CAPTURE(seen.accuracy);
  CHECK(std::abs(seen.loss - expected.loss) < 0.01);
  CHECK(std::abs(seen.accuracy - expected.accuracy) < 0.01);
}

const Dataset& test_set() {
  static const Dataset set = lines(1000, 2, false);
  return set;
}

/// Trains, and compares what the last epoch leaves.
void check_run(int64_t images, const Recipe& recipe, const Look& in_training, const Look& in_test) {
  CAPTURE(images);
  const Dataset set = lines(images, 1, true);
  train(set, recipe, [&](Net& net, int64_t epoch) {
    if (epoch < recipe.epochs) return;
    check_near(look(net, set), in_training);
    check_near(look(net, test_set()), in_test);
  });
}

TEST_CASE("tour, generalisation: a fifth of the training labels is wrong, no other label") {
  const Dataset wrong = lines(200, 1, true), right = lines(200, 1, false);
  CHECK(wrong.pixels == right.pixels);
  int64_t different = 0;
  for (size_t i = 0; i < 200; ++i) different += wrong.labels[i] != right.labels[i];
  CHECK(different == 40);
}

TEST_CASE("tour, generalisation: 200 images are learnt by heart, and the test loss rises again") {
  const Dataset set = lines(200, 1, true), validation = lines(100, 3, false);
  Look best{1e9, 0}, most_accurate;
  int64_t best_epoch = 0, most_accurate_epoch = 0;
  train(set, {}, [&](Net& net, int64_t epoch) {
    const Look seen = look(net, validation);
    if (seen.loss < best.loss) best = seen, best_epoch = epoch;
    if (seen.accuracy > most_accurate.accuracy) most_accurate = seen, most_accurate_epoch = epoch;
    if (epoch == 9) {
      check_near(look(net, set), {0.5908, 0.815});
      check_near(look(net, test_set()), {1.0001, 0.57});
    }
    if (epoch == 12) CHECK(std::abs(look(net, test_set()).accuracy - 0.495) < 0.01);
    if (epoch == 40) {
      check_near(look(net, set), {0.0878, 1});
      check_near(look(net, test_set()), {1.225, 0.556});
    }
  });
  CHECK(best_epoch == 9);
  check_near(best, {1.0242, 0.54});
  CHECK(most_accurate_epoch == 12);
  CHECK(std::abs(most_accurate.accuracy - 0.57) < 0.015);
}

TEST_CASE("tour, generalisation: weight decay, shifted images, both, and more images") {
  check_run(200, {.weight_decay = 0.1}, {0.4608, 0.865}, {0.5092, 0.889});
  check_run(200, {.shift = 2}, {0.6656, 0.805}, {0.4488, 0.893});
  check_run(200, {.weight_decay = 0.1, .shift = 2}, {0.7099, 0.79}, {0.4282, 0.979});
  check_run(800, {.epochs = 10}, {0.6708, 0.7762}, {0.4797, 0.865});
}

}  // namespace
}  // namespace tiny
