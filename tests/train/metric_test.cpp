// Metrics against their formulas over whole data, however it is cut into batches.
#include "lathe/train/metric.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "../cuda_case.h"
#include "lathe/core/capture/cuda_graph.h"
#include "lathe/core/error.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"

using namespace lathe;

namespace {

train::Result scored(const Tensor& scores, const Tensor& classes, double loss = 0) {
  return {full({}, loss), scores, classes, classes.dim(0)};
}

const Tensor kScores = tensor({{3.f, 1.f, 2.f}, {0.f, 5.f, 5.f}, {1.f, 2.f, 3.f}, {9.f, 8.f, 7.f}});

}  // namespace

TEST_CASE("metric: the mean over samples, however they are cut into batches") {
  train::Metric error =
      train::mean("error", [](const train::Result& r) { return abs(r.output - r.target).mean(); });
  CHECK(std::isnan(error.value()));
  error.add({{}, tensor({1.f, 2.f, 3.f}), tensor({1.f, 1.f, 1.f}), 3});  // 0, 1, 2
  error.add({{}, tensor({7.f}), tensor({0.f}), 1});
  CHECK(error.value() == 10.0 / 4);
  error.clear();
  CHECK(std::isnan(error.value()));
  error.add({{}, tensor({7.f}), tensor({0.f}), 1});
  CHECK(error.value() == 7);
}

TEST_CASE("metric: loss and perplexity weigh batches by their samples") {
  train::Metric loss = train::mean_loss(), perplexity = train::perplexity();
  for (train::Metric* m : {&loss, &perplexity}) {
    m->add(scored(kScores, tensor({0, 1, 2, 0}), 2.0));
    m->add({full({}, 7.0), {}, {}, 1});
  }
  CHECK(loss.value() == doctest::Approx(3.0).epsilon(1e-12));
  CHECK(perplexity.value() == doctest::Approx(std::exp(3.0)).epsilon(1e-12));
  CHECK(loss.name() == "loss");
}

TEST_CASE("metric: accuracy and top k of classes, also of each pixel, without ignored ones") {
  train::Metric accuracy = train::accuracy(), top2 = train::top_k(2);
  const Tensor classes = tensor({0, 2, 0, -100});  // the first of equal scores is the best: wrong
  accuracy.add(scored(kScores, classes));
  top2.add(scored(kScores, classes));
  CHECK(accuracy.value() == doctest::Approx(1.0 / 3));
  CHECK(top2.value() == doctest::Approx(2.0 / 3));
  CHECK(top2.name() == "top2");
  train::Metric of_pixels = train::accuracy();
  of_pixels.add(scored(kScores.transpose(0, 1).unsqueeze(0), tensor({{0, 1, 2, 1}})));  // [1,3,4]
  CHECK(of_pixels.value() == 3.0 / 4);
  train::Metric all = train::top_k(7);  // more than there are
  all.add(scored(kScores, classes));
  CHECK(all.value() == 1);
}

// Predictions 0 1 2 0. Class 0: both 1, either 2; class 1: 1 of 2; class 2: 0 of 1; class 3 is
// absent.
TEST_CASE("metric: intersection over union by its definition") {
  train::Metric iou = train::mean_iou(4);
  const Tensor scores = tensor({{3.f, 1.f, 2.f, 0.f}, {0.f, 5.f, 5.f, 0.f}});
  iou.add(scored(scores, tensor({0, 1})));
  iou.add(scored(tensor({{1.f, 2.f, 3.f, 0.f}, {9.f, 8.f, 7.f, 0.f}, {9.f, 0.f, 0.f, 0.f}}),
                 tensor({1, 255, 1})));
  // confusion: [0,0] [1,1] [1,2] [1,0]
  // class 0: both 1, either 2; class 1: both 1, either 3; class 2: both 0, either 1
  CHECK(iou.value() == doctest::Approx((1.0 / 2 + 1.0 / 3 + 0.0) / 3));
}

TEST_CASE("metric: its state goes on, and totals of several can be added") {
  train::Metric one = train::accuracy(), two = train::accuracy();
  one.add(scored(kScores, tensor({0, 1, 2, 0})));
  two.load_state_dict(one.state_dict(), kCPU);
  two.add(scored(kScores, tensor({1, 0, 0, 1})));
  CHECK(one.value() == 1);
  CHECK(two.value() == 0.5);
  const auto totals = (one.totals() + two.totals()).to_vector<double>();
  CHECK(one.value_of(totals) == doctest::Approx(8.0 / 12));
  two.load_state_dict(train::accuracy().state_dict(), kCPU);
  CHECK(std::isnan(two.value()));
  StateDict other;
  other.add_number("total", 1);
  CHECK_THROWS_WITH_AS(two.load_state_dict(other, kCPU),
                       doctest::Contains("has a state with an unexpected total"), ValueError);
}

TEST_CASE("metric: what does not fit is an error") {
  train::Metric accuracy = train::accuracy();
  CHECK_THROWS_WITH_AS(accuracy.add({full({}, 1.0), {}, {}, 1}),
                       doctest::Contains("gives no output or no target"), ValueError);
  CHECK_THROWS_WITH_AS(accuracy.add(scored(kScores, tensor({0, 1}))),
                       doctest::Contains("target: i64[2]"), ShapeError);
  CHECK_THROWS_WITH_AS(accuracy.add(scored(kScores, tensor({0.f, 1.f, 2.f, 0.f}))),
                       doctest::Contains("must be class numbers (f32[4]"), DTypeError);
  CHECK_THROWS_WITH_AS(train::top_k(0), doctest::Contains("k must be at least 1, got 0"),
                       ValueError);
  CHECK_THROWS_WITH_AS(train::mean_iou(0), doctest::Contains("got 0"), ValueError);
  CHECK_THROWS_WITH_AS(train::mean_iou(2).add(scored(kScores, tensor({0, 1, 1, 0}))),
                       doctest::Contains("must have 2 classes"), ShapeError);
  CHECK_THROWS_WITH_AS(train::mean("x", {}), doctest::Contains("the function is empty"),
                       ValueError);
  train::Metric sums(
      "sums", [](const train::Result& r) { return r.output; },
      [](std::span<const double> totals) { return totals[0]; });
  sums.add({{}, tensor({1.f, 2.f}), {}, 1});
  CHECK_THROWS_WITH_AS(sums.add({{}, tensor({1.f}), {}, 1}), doctest::Contains("now: f64[1]"),
                       ShapeError);
  CHECK(sums.value() == 1);
}

TEST_CASE("metric: launches of a graph add their batches" * test::cuda_case()) {
  const Device gpu(DeviceType::kCUDA);
  train::Metric accuracy = train::accuracy(), first = train::accuracy();
  const Tensor scores = kScores.to(gpu), classes = tensor({0, 1, 2, 0}).to(gpu);
  accuracy.add(scored(scores, classes));
  cuda::Graph graph(gpu), refused(gpu);
  graph.capture([&] { accuracy.add(scored(scores, classes)); });
  CHECK(accuracy.totals().cpu().to_vector<double>() == std::vector<double>{4, 4});
  for (int i = 0; i < 2; ++i) graph.launch();
  CHECK(accuracy.totals().cpu().to_vector<double>() == std::vector<double>{12, 12});
  CHECK_THROWS_AS(refused.capture([&] { first.add(scored(scores, classes)); }), StateError);
}
