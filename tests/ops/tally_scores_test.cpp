// Totals of scores and labels, on the CPU and, where there is one, on a GPU.
#include "lathe/ops/tally_scores.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "compare.h"
#include "lathe/core/cuda.h"
#include "lathe/ops/random.h"

using namespace lathe;
using namespace lathe::test;

namespace {

struct Numbers {
  double loss;
  std::vector<int64_t> counts, confusion;
};

Numbers tallied(const Tensor& scores, const std::vector<int64_t>& labels, double loss,
                Device device, int64_t times = 1) {
  const ScoreTally tally = make_score_tally(device, scores.dim(1));
  const Tensor mean = full({}, loss, {.dtype = scores.dtype() == kF64 ? kF64 : kF32});
  for (int64_t i = 0; i < times; ++i) {
    tally_scores_(tally, scores.to(device), tensor(labels).to(device), mean.to(device));
  }
  return {tally.loss_sum.item<double>(), tally.counts.cpu().to_vector<int64_t>(),
          tally.confusion.cpu().to_vector<int64_t>()};
}

/// Written out: sorts the row.
Numbers naive(const std::vector<std::vector<double>>& rows, const std::vector<int64_t>& labels,
              double loss) {
  const size_t classes = rows[0].size();
  Numbers out{loss * static_cast<double>(rows.size()),
              {static_cast<int64_t>(rows.size()), 0, 0},
              std::vector<int64_t>(classes * classes)};
  for (size_t i = 0; i < rows.size(); ++i) {
    std::vector<size_t> order(classes);
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return rows[i][a] > rows[i][b]; });
    const auto label = static_cast<size_t>(labels[i]);
    out.counts[1] += order[0] == label;
    out.counts[2] += std::find(order.begin(), order.begin() + std::min<size_t>(5, classes),
                               label) != order.begin() + std::min<size_t>(5, classes);
    ++out.confusion[label * classes + order[0]];
  }
  return out;
}

}  // namespace

TEST_CASE("tally_scores_: as a sorted row says, for any number of classes, on every device") {
  for (const Device device : devices()) {
    for (const int64_t classes : {1, 2, 10, 31, 33, 100}) {
      for (const int64_t rows : {1, 7, 300}) {
        const Tensor scores = randn({rows, classes}, {.dtype = kF64});
        const std::vector<int64_t> labels = randint(0, classes, {rows}).to_vector<int64_t>();
        std::vector<std::vector<double>> lines;
        for (int64_t i = 0; i < rows; ++i) lines.push_back(scores[i].to_vector<double>());
        const Numbers want = naive(lines, labels, 0.25),
                      got = tallied(scores, labels, 0.25, device);
        CAPTURE(device);
        CHECK(got.loss == want.loss);
        CHECK(got.counts == want.counts);
        CHECK(got.confusion == want.confusion);
      }
    }
  }
}

TEST_CASE("tally_scores_: batches add up, in every floating dtype, dense or not") {
  for (const Device device : devices()) {
    for (const DType dtype : {kF16, kBF16, kF32, kF64}) {
      const Tensor wide = cast(tensor({{1.f, 2.f, 0.f, 9.f}, {5.f, 1.f, 1.f, 9.f}}), dtype);
      const Numbers got = tallied(wide.narrow(1, 0, 3), {1, 2}, 0.5, device, 3);
      CHECK(got.loss == 3);
      CHECK(got.counts == std::vector<int64_t>{6, 3, 6});
      CHECK(got.confusion == std::vector<int64_t>{0, 0, 0, 0, 3, 0, 3, 0, 0});
    }
  }
}

TEST_CASE("tally_scores_: ties, NaN and labels that do not exist count against the classifier") {
  const Tensor same = full({1, 6}, 1.0), nan = full({1, 6}, NAN);
  const Tensor one_nan = tensor({{1.f, 2.f, NAN, 3.f}});
  for (const Device device : devices()) {
    CHECK(tallied(same, {0}, 0, device).counts == std::vector<int64_t>{1, 1, 0});
    CHECK(tallied(same, {5}, 0, device).counts == std::vector<int64_t>{1, 0, 0});
    CHECK(tallied(nan, {0}, NAN, device).counts == std::vector<int64_t>{1, 0, 0});
    CHECK(std::isnan(tallied(nan, {0}, NAN, device).loss));
    const Numbers got = tallied(one_nan, {2}, 1, device);
    CHECK(got.counts == std::vector<int64_t>{1, 0, 1});  // four scores: all are among the five best
    CHECK(got.confusion[2 * 4 + 2] == 1);
    for (const int64_t label : {int64_t{-1}, int64_t{4}}) {
      const Numbers none = tallied(one_nan, {label}, 1, device);
      CHECK(none.counts == std::vector<int64_t>{1, 0, 0});
      CHECK(none.confusion == std::vector<int64_t>(16));
    }
  }
  const ScoreTally tally = make_score_tally(kCPU);
  tally_scores_(tally, zeros({0, 3}), zeros({0}, {.dtype = kI64}), zeros({}));
  CHECK(tally.counts.to_vector<int64_t>() == std::vector<int64_t>{0, 0, 0});
}

TEST_CASE("tally_scores_: what does not fit is refused") {
  const ScoreTally tally = make_score_tally(kCPU, 3);
  const Tensor scores = zeros({2, 3}), labels = zeros({2}, {.dtype = kI64}), loss = zeros({});
  CHECK_THROWS_AS(tally_scores_(tally, zeros({2}), labels, loss), ShapeError);
  CHECK_THROWS_AS(tally_scores_(tally, scores, zeros({3}, {.dtype = kI64}), loss), ShapeError);
  CHECK_THROWS_AS(tally_scores_(tally, scores, labels, zeros({1})), ShapeError);
  CHECK_THROWS_AS(tally_scores_(tally, zeros({2, 4}), labels, loss), ShapeError);
  CHECK_THROWS_AS(tally_scores_(tally, scores, labels.to(kF32), loss), DTypeError);
  CHECK_THROWS_AS(tally_scores_(tally, scores.to(kI64), labels, loss), DTypeError);
  CHECK_THROWS_AS(tally_scores_(tally, scores, labels, loss.to(kF64)), DTypeError);
  CHECK_THROWS_AS(make_score_tally(kCPU, -1), ValueError);
  CHECK(tally.counts.to_vector<int64_t>() == std::vector<int64_t>{0, 0, 0});
}
