#include "lathe/train/tally.h"

#include <doctest/doctest.h>

#include <cmath>

#include "../cuda_case.h"
#include "lathe/core/capture/cuda_graph.h"
#include "lathe/core/error.h"
#include "lathe/ops/creation.h"

using namespace lathe::train;
namespace {

/// A batch as the loss function of a classifier gives it.
Result batch(const lathe::Tensor& scores, const lathe::Tensor& labels, const lathe::Tensor& loss) {
  return {loss, scores, labels, scores.dim(0)};
}

}  // namespace

using lathe::full;
using lathe::tensor;

TEST_CASE("tally: loss, hits and confusion add up over batches of different size") {
  Tally tally({.scores = true, .classes = 3});
  CHECK(tally.accuracy() == 0);
  tally.add(batch(tensor({{1.f, 2.f, 0.f}, {5.f, 1.f, 1.f}}), tensor({1, 2}), full({}, 0.5)));
  tally.add(batch(tensor({{0.f, 0.f, 1.f}}), tensor({2}), full({}, 2.0)));
  CHECK(tally.count() == 3);
  CHECK(tally.loss() == doctest::Approx(1.0));
  CHECK(tally.accuracy() == doctest::Approx(2.0 / 3));
  tally.read();
  CHECK(tally.confusion(1, 1) == 1);
  CHECK(tally.confusion(2, 0) == 1);
  CHECK(tally.confusion(2, 2) == 1);
  CHECK(tally.confusion(0, 0) == 0);
  tally.clear();
  CHECK(tally.count() == 0);
  CHECK(tally.confusion(1, 1) == 0);
}

TEST_CASE("tally: top-5 counts the five best, ties against the label") {
  Tally tally({.scores = true});
  tally.add(batch(tensor({{9.f, 8.f, 7.f, 6.f, 5.f, 4.f}}), tensor({4}), full({}, 0.0)));
  CHECK(tally.top5() == 1);
  tally.add(batch(tensor({{9.f, 8.f, 7.f, 6.f, 5.f, 4.f}}), tensor({5}), full({}, 0.0)));
  CHECK(tally.top5() == 0.5);
  tally.clear();
  tally.add(batch(tensor({{1.f, 1.f, 1.f, 1.f, 1.f, 1.f}}), tensor({0}), full({}, 0.0)));
  CHECK(tally.top5() == 0);
}

TEST_CASE("tally: scores that are not numbers are no hits") {
  Tally tally({.scores = true});
  tally.add(batch(tensor({{NAN, NAN, NAN, NAN, NAN, NAN}}), tensor({0}), full({}, NAN)));
  CHECK(tally.accuracy() == 0);
  CHECK(tally.top5() == 0);
  CHECK(std::isnan(tally.loss()));
}

TEST_CASE("tally: one joins another, and goes on") {
  Tally all({.scores = true}), part({.scores = true});
  const auto add = [](Tally& tally, int64_t label, double loss) {
    tally.add(batch(tensor({{1.f, 2.f}}), tensor({label}), full({}, loss)));
  };
  add(part, 1, 1);
  all.join(part);
  part.clear();
  add(part, 0, 4);
  all.join(part);
  CHECK(all.count() == 2);
  CHECK(all.loss() == 2.5);
  CHECK(all.accuracy() == 0.5);
  add(all, 1, 4);
  CHECK(all.count() == 3);
  CHECK(all.loss() == 3);
}

TEST_CASE("tally: on a GPU a graph adds to its sums, also after clear()" *
          lathe::test::cuda_case()) {
  const lathe::Device gpu(lathe::DeviceType::kCUDA);
  const auto scores = tensor({{1.f, 2.f}}).to(gpu), loss = full({}, 0.5, {.device = gpu});
  const auto labels = tensor({1}).to(gpu);
  Tally tally({.scores = true});
  CHECK_THROWS_WITH_AS(tally.record(batch(scores, labels, loss)),
                       doctest::Contains("must be added before a CUDA graph"), lathe::StateError);
  tally.add(batch(scores, labels, full({}, 1.5, {.device = gpu})));
  lathe::cuda::Graph graph(gpu);
  graph.capture([&] { tally.record(batch(scores, labels, loss)); });
  const auto launch = [&] {
    graph.launch();
    tally.launched(1);
    tally.read();
  };
  launch();
  CHECK(tally.count() == 2);
  CHECK(tally.loss() == 1);
  tally.clear();
  tally.read();
  CHECK(tally.loss() == 0);
  launch();
  launch();
  CHECK(tally.count() == 2);
  CHECK(tally.accuracy() == 1);
  CHECK(tally.loss() == 0.5);
}
