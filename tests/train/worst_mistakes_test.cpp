// The images that an evaluation got most wrong.
#include "lathe/train/worst_mistakes.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "lathe/lathe.h"

using namespace lathe;

TEST_CASE("worst mistakes: the highest losses of wrong predictions, those of other batches too") {
  train::WorstMistakes worst(2);
  // The probabilities of three classes; sample 1 is right.
  const auto add = [&](std::vector<std::vector<float>> rows, std::vector<int64_t> labels) {
    Tensor scores = empty({static_cast<int64_t>(rows.size()), 3});
    for (size_t i = 0; i < rows.size(); ++i)
      for (size_t c = 0; c < 3; ++c) scores.data<float>()[3 * i + c] = std::log(rows[i][c]);
    worst.add(scores, tensor(labels));
  };
  add({{0.5f, 0.3f, 0.2f}, {0.1f, 0.8f, 0.1f}}, {2, 1});
  REQUIRE(worst.found().size() == 1);
  add({{0.9f, 0.05f, 0.05f}, {0.6f, 0.3f, 0.1f}}, {1, 1});
  REQUIRE(worst.found().size() == 2);
  const train::Mistake& first = worst.found()[0];
  CHECK(first.index == 2);
  CHECK(first.label == 1);
  CHECK(first.predicted == 0);
  CHECK(first.probability == doctest::Approx(0.9));
  CHECK(first.loss == doctest::Approx(-std::log(0.05)));
  CHECK(worst.found()[1].index == 0);  // a loss of 1.61, before 1.20 of sample 3
  const Tensor bad = full({1, 3}, std::numeric_limits<double>::quiet_NaN());
  worst.add(bad, tensor(std::vector<int64_t>{0}));
  CHECK(worst.found()[0].index == 2);
}
