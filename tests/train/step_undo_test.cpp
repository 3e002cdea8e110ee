#include "lathe/train/step_undo.h"

#include <doctest/doctest.h>

#include <vector>

#include "lathe/core/random/random_state.h"
#include "lathe/nn/batch_norm.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/random.h"

using namespace lathe;
using namespace lathe::train;

namespace {

std::vector<double> values_of(const StateDict& state) {
  std::vector<double> out;
  for (const auto& [name, value] : state) {
    for (const double each : value.to(kF64).to_vector<double>()) out.push_back(each);
  }
  return out;
}

}  // namespace

TEST_CASE("step undo: statistics, random numbers and sums are those from before the batches") {
  nn::BatchNorm2d norm(3);
  StepUndo undo(norm);
  Tally window;
  const auto batch = [&] {
    norm(randn({4, 3, 2, 2}));
    window.add({full({}, 0.5), tensor({{1.f, 2.f}}), tensor({1}), 1});
  };
  const auto state = [&] {
    std::vector<double> out = values_of(norm.state_dict());
    for (const auto& part : {values_of(random_state()), values_of(window.state_dict())})
      out.insert(out.end(), part.begin(), part.end());
    return out;
  };
  CHECK_FALSE(undo.undo(window));  // nothing has begun
  batch();
  const std::vector<double> before = state();
  undo.begin(window);
  batch();
  batch();
  CHECK(state() != before);
  CHECK(undo.undo(window));
  CHECK(state() == before);
  batch();
  CHECK_FALSE(undo.undo(window));  // once

  undo.begin(window);
  batch();
  const std::vector<double> updated = state();
  undo.forget();
  CHECK_FALSE(undo.undo(window));
  CHECK(state() == updated);
}
