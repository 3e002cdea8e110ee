// The learning-rate range test: its numbers for losses that are known, its picture, and a model.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "lathe/core/error.h"
#include "lathe/core/text/formatted.h"
#include "lathe/lathe.h"
#include "lathe/train.h"
#include "lathe/train/report/line_chart.h"
#include "small_training.h"

using namespace lathe::train;
using namespace lathe;
using doctest::Approx;

namespace {

/// A loss that falls along tanh, steepest where lr = 1e-2, and explodes beyond 1.
double loss_at(double lr) {
  const double x = std::log10(lr) + 2;
  return 2 - std::tanh(3 * x) + (lr > 1 ? std::pow(lr, 4) : 0);
}

LrRange swept(LrRangeOptions options) {
  LrRange range(options);
  for (int64_t step = 0; range.add(loss_at(range.lr_at(step))); ++step) {
  }
  return range;
}

/// What is suggested if step i of 100 has the loss f(i / 100), with pseudo-random noise from -0.5 to
/// 0.5.
LrSuggestion noisy(uint32_t seed, double (*f)(double)) {
  LrRange range({});
  for (int64_t step = 0;; ++step) {
    seed = seed * 1664525 + 1013904223;
    const double noise = static_cast<double>(seed >> 8) / (1 << 24) - 0.5;
    if (!range.add(f(static_cast<double>(step) / 100) + noise)) return range.suggestion();
  }
}

}  // namespace

TEST_CASE("lr range: learning rates rise by a constant factor between the ends") {
  const LrRange range({.min_lr = 1e-4, .max_lr = 1, .steps = 5});
  for (const int64_t step : {0, 1, 2, 3, 4})
    CHECK(range.lr_at(step) == Approx(std::pow(10.0, static_cast<double>(step) - 4)));
}

TEST_CASE("lr range: the loss is smoothed without a bias towards 0") {
  LrRange range({.min_lr = 1e-4, .max_lr = 1, .steps = 3, .smoothing = 0.75});
  CHECK(range.add(2));
  CHECK(range.add(1));
  CHECK_FALSE(range.add(4));  // the last one
  CHECK_FALSE(range.diverged());
  const auto& points = range.points();
  CHECK(points[0].smoothed == Approx(2));
  CHECK(points[1].smoothed == Approx((0.75 * 2 + 1) / 1.75));
  CHECK(points[2].smoothed == Approx((0.5625 * 2 + 0.75 * 1 + 4) / (0.5625 + 0.75 + 1)));
  CHECK(range.lowest().loss == 1);
}

TEST_CASE("lr range: ends where the loss exceeds four times its minimum, or is no number") {
  const LrRange range = swept({.smoothing = 0});
  CHECK(range.diverged());
  CHECK(range.points().size() < 100);
  CHECK(range.points().back().loss > 4 * range.lowest().loss);
  CHECK(range.points()[range.points().size() - 2].loss <= 4 * range.lowest().loss);
  for (const double loss : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    LrRange other({});
    CHECK(other.add(1));
    CHECK_FALSE(other.add(loss));
    CHECK(other.diverged());
    CHECK(other.points().size() == 1);
  }
}

TEST_CASE("lr range: suggests where the loss falls most steeply") {
  CHECK(std::log10(swept({.smoothing = 0}).suggestion().lr) == Approx(-2).epsilon(0.03));
  // Smoothing looks back: about 1 / (1 - smoothing) steps of 1/16 decade each.
  const double smooth = std::log10(swept({}).suggestion().lr);
  CHECK(smooth > -2);
  CHECK(smooth < -1.2);

  LrRange rising({.steps = 9, .smoothing = 0});
  while (rising.add(1 + static_cast<double>(rising.points().size()) / 10)) {
  }
  CHECK(rising.suggestion().lr == 0);
  CHECK(rising.suggestion().remark == LrRemark::kNoFall);
  LrRange single({});
  single.add(1);
  CHECK(single.suggestion().lr == 0);
  CHECK(single.suggestion().remark == LrRemark::kTooFewSteps);
  CHECK(swept({.steps = 39}).suggestion().remark == LrRemark::kTooFewSteps);
}

TEST_CASE("lr range: the first tenth suggests nothing, however steeply the loss falls there") {
  // From 10 to 2.5 in five steps, as a new model's loss may; then slowly, steepest in the middle.
  const auto loss = [](int64_t step) {
    const auto i = static_cast<double>(step);
    return step < 5 ? 10 - 1.5 * i : 2 - 0.5 * std::tanh((i - 50) / 10);
  };
  const auto suggested = [&](double skipped) {
    LrRange range({.smoothing = 0, .skipped = skipped});
    for (int64_t step = 0; range.add(loss(step)); ++step) {
    }
    return std::pair{range.suggestion().lr, range};
  };
  const auto [lr, range] = suggested(0.1);
  CHECK(range.first_used() == 10);
  CHECK(lr == Approx(range.lr_at(50)).epsilon(0.5));
  CHECK(suggested(0).first < range.lr_at(10));
}

TEST_CASE("lr range: a fall that may be chance suggests nothing") {
  int flat = 0, chance = 0;
  for (uint32_t seed = 1; seed <= 100; ++seed) {
    const LrSuggestion none = noisy(seed, [](double) { return 2.0; });
    flat += none.lr > 0 ? 1 : 0;
    chance += none.remark == LrRemark::kMayBeChance ? 1 : 0;
  }
  CHECK(flat <= 3);
  CHECK(chance >= 30);
  CHECK(swept({}).suggestion().remark == LrRemark::kNone);
}

TEST_CASE("lr range: a place that half of the steps does not confirm is no suggestion") {
  // A line is steepest nowhere. Other falls are steepest at half of the range, within the noise.
  int line = 0, steep = 0;
  for (uint32_t seed = 1; seed <= 100; ++seed) {
    const LrSuggestion of_line = noisy(seed, [](double t) { return 2 - 1.5 * t; });
    const LrSuggestion of_fall =
        noisy(seed, [](double t) { return 2 - 0.75 * std::tanh((t - 0.5) / 0.05); });
    line += of_line.remark == LrRemark::kUnsteady ? 1 : 0;
    CHECK((of_line.remark == LrRemark::kUnsteady) == (of_line.lr == 0));
    steep += of_fall.lr > 1e-3 && of_fall.lr < 0.1 ? 1 : 0;
  }
  CHECK(line >= 75);
  CHECK(steep >= 90);
}

TEST_CASE("lr range: the steepest place is found over an eighth of the points") {
  LrRange range({.steps = 64, .smoothing = 0});
  // Falls by 1 from point 30 to 38, and hardly before and after.
  for (int i = 0; i < 64; ++i) {
    const double part = std::clamp((i - 30) / 8.0, 0.0, 1.0);
    range.add(2 - part - 1e-4 * i);
  }
  CHECK(range.suggestion().lr == range.lr_at(34));
  CHECK(range.suggestion().remark == LrRemark::kStillFalls);
}

TEST_CASE("lr range: a loss that falls until it is no number does not fall beyond the last rate") {
  LrRange range({.steps = 64, .smoothing = 0});
  for (int i = 0; i < 40; ++i) range.add(10 - 4 * std::tanh((i - 20) / 8.0));
  CHECK_FALSE(range.add(std::nan("")));
  CHECK(range.suggestion().lr > 0);
  CHECK(range.suggestion().remark == LrRemark::kNone);
}

TEST_CASE("lr range: pictures cut losses as far above the first as the lowest is below it") {
  LrRange range({.min_lr = 1e-4, .max_lr = 1, .steps = 20, .smoothing = 0});
  for (int i = 0; i < 20; ++i) range.add(i == 10 ? 1.0 : i < 10 ? 2.0 : 3.9);
  CHECK(lr_plot(range, 40, 10).starts_with("   3.000 |"));
  const std::string svg = lr_svg(range);
  CHECK(svg.find(">0.001<") != std::string::npos);  // the axis is logarithmic
  // The lowest loss is above the lower border, by a 21st of the height; the highest above the upper.
  CHECK(svg.find(formatted(" {:.1f}L", 312 * (1 - 0.1 / 2.1))) != std::string::npos);
  CHECK(svg.find(formatted(" {:.1f}L", 312 * (1 - 3.0 / 2.1))) != std::string::npos);
}

TEST_CASE("lr range: bad bounds are errors of the call") {
  CHECK_THROWS_AS(LrRange({.min_lr = 0}), ValueError);
  CHECK_THROWS_AS(LrRange({.min_lr = 1, .max_lr = 1}), ValueError);
  CHECK_THROWS_AS(LrRange({.min_lr = 1e-320, .max_lr = 1e308}), ValueError);
  CHECK_THROWS_AS(LrRange({.steps = 1}), ValueError);
}

TEST_CASE("lr range: the picture has its size, its curve and the suggestion") {
  const LrRange range = swept({.smoothing = 0});
  std::istringstream text(lr_plot(range, 40, 10));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  REQUIRE(lines.size() == 12);
  size_t stars = 0;
  for (size_t r = 0; r < 10; ++r) {
    CHECK(lines[r].size() <= 10 + 40);
    stars += lines[r].find('*') != std::string::npos ? 1 : 0;
  }
  CHECK(stars >= 5);  // the curve goes up and down
  CHECK(std::ranges::any_of(lines, [](const auto& line) { return line[10] == '.'; }));  // skipped
  CHECK(lines[9].find('*') != std::string::npos);
  const size_t mark = lines[0].find('|', 10);
  REQUIRE(mark != std::string::npos);
  const double decades = std::log10(range.points().back().lr / 1e-5);
  CHECK(static_cast<double>(mark - 10) == Approx(39 * 3 / decades).epsilon(0.1));  // 1e-5 … 1e-2
  CHECK(lines[11].find("1.0e-05") != std::string::npos);
  LrRange single({});
  single.add(1);
  CHECK(lr_plot(single, 40, 10).empty());
  LrRange flat({.min_lr = 1e-4, .max_lr = 1, .steps = 2, .smoothing = 0});
  flat.add(1e6);  // 1e-12 more is the same number
  flat.add(1e6);
  const std::string line = lr_plot(flat, 40, 10);
  CHECK(std::ranges::count(line, '*') == 2);
}

TEST_CASE("lr range: the picture as SVG has both curves and the suggestion") {
  const LrRange range = swept({});
  const std::string svg = lr_svg(range);
  CHECK(svg.starts_with(report::kChartBegin));
  CHECK(svg.find(">loss<") != std::string::npos);
  CHECK(svg.find("> smoothed<") != std::string::npos);
  char text[32];
  std::snprintf(text, sizeof text, ">%.2g<", range.suggestion().lr);
  CHECK(svg.find(text) != std::string::npos);
}

TEST_CASE("find_lr: trains with each rate, and gives model and optimiser their state back") {
  test::Net net;
  net.model.train();
  const auto before = test::values_of(net.model.state_dict());
  const auto optimizer_before = test::values_of(net.optimizer->state_dict());
  std::vector<double> rates;
  const auto options =
      FindLrOptions{.range = {.min_lr = 1e-4, .max_lr = 10, .steps = 30},
                    .step = {.accumulate = 2},
                    .on_step = [&](const LrRange&) { rates.push_back(net.optimizer->lr()); }};
  const LossFunction loss = classification(net.model);
  const LrSearch found = find_lr(net.model, *net.optimizer, loss, net.train, options);
  const auto made = static_cast<int64_t>(found.range.points().size());
  CHECK(made >= 10);
  REQUIRE(rates.size() + 1 == static_cast<size_t>(made));
  for (size_t i = 0; i < rates.size(); ++i)
    CHECK(rates[i] == found.range.lr_at(static_cast<int64_t>(i) + 1));
  CHECK(test::values_of(net.model.state_dict()) == before);
  CHECK(test::values_of(net.optimizer->state_dict()) == optimizer_before);
  CHECK_FALSE(net.model.parameters()[0].grad().defined());
  // The first update sees two batches of four; its loss is the mean over both.
  test::Net other;
  other.model.train();
  double sum = 0;
  int batches = 0;
  other.train.set_epoch(0);
  for (auto& [x, y] : other.train) {
    sum += cross_entropy(other.model(x), y).item<double>();
    if (++batches == 2) break;
  }
  CHECK(found.range.points()[0].loss == doctest::Approx(sum / 2).epsilon(1e-6));
}

namespace {

/// Two batches an epoch, of four samples and of two. Each says the loss that it shall have, once
/// make() has added the epoch.
class Told final : public Batches {
 public:
  std::vector<int64_t> epochs;

  int64_t size() const override { return 2; }
  std::unique_ptr<Pass> begin(int64_t epoch, int64_t first) override {
    CHECK(first == 0);
    epochs.push_back(epoch);
    return std::make_unique<Two>();
  }
  void make(Tensors& batch) const override {
    batch.push_back(full({}, static_cast<double>(epochs.back())));
  }

 private:
  struct Two final : Pass {
    int next_one = 0;
    bool next(Tensors& batch) override {
      if (next_one == 2) return false;
      batch = {full({next_one == 0 ? 4 : 2}, next_one == 0 ? 1.0 : 4.0)};
      return ++next_one <= 2;
    }
  };
};

}  // namespace

TEST_CASE("find_lr: rates, epochs and losses are those of the updates") {
  test::Net net;
  std::vector<double> rates;
  const LossFunction loss = [&](const Tensors& batch) {
    rates.push_back(net.optimizer->lr());
    return Result{.loss = mean(batch.at(0)) + batch.at(1) + sum(net.model.parameters()[0]) * 0};
  };
  Told batches;
  const LrSearch one = find_lr(net.model, *net.optimizer, loss, batches, {.range = {.steps = 5}});
  CHECK(batches.epochs == std::vector<int64_t>{0, 1, 2});
  REQUIRE(one.range.points().size() == 5);
  const double losses[] = {1, 4, 2, 5, 3};
  for (size_t i = 0; i < 5; ++i) {
    CHECK(one.range.points()[i].loss == losses[i]);
    CHECK(rates[i] == one.range.lr_at(static_cast<int64_t>(i)));
  }
  CHECK(one.steps == 5);
  CHECK(one.skipped == 0);
  // An update of both batches: (4 * 1 + 2 * 4) / 6 samples.
  Told again;
  const LrSearch two = find_lr(net.model, *net.optimizer, loss, again,
                               {.range = {.steps = 3}, .step = {.accumulate = 2}});
  REQUIRE(two.range.points().size() == 3);
  for (size_t i = 0; i < 3; ++i) CHECK(two.range.points()[i].loss == 2 + static_cast<double>(i));
}

TEST_CASE("find_lr: updates that the loss scale skips are counted") {
  test::Net net;
  net.model.train();
  const LrSearch found = find_lr(
      net.model, *net.optimizer, classification(net.model), net.train,
      {.range = {.steps = 4},
       .step = {.scaling = optim::GradScalerOptions{.init_scale = 3e38, .backoff_factor = 1e-30}}});
  CHECK(found.skipped == 1);
  CHECK(found.steps == 4);
}

TEST_CASE("find_lr: an error of the loader in the middle of an update leaves no gradient") {
  struct Fails final : Batches {
    struct Once final : Pass {
      bool first = true;
      bool next(Tensors& batch) override {
        if (!std::exchange(first, false)) throw DataError("no more");
        batch = {full({4, 4}, 0.5), zeros({4}, {.dtype = kI64})};
        return true;
      }
    };
    int64_t size() const override { return 2; }
    std::unique_ptr<Pass> begin(int64_t, int64_t) override { return std::make_unique<Once>(); }
  };
  test::Net net;
  net.model.train();
  Fails batches;
  CHECK_THROWS_AS(find_lr(net.model, *net.optimizer, classification(net.model), batches,
                          {.step = {.accumulate = 2}}),
                  DataError);
  CHECK_FALSE(net.model.parameters()[0].grad().defined());
}

TEST_CASE("find_lr: without batches it says so, and an error leaves the state as it was") {
  test::Net net;
  const auto before = test::values_of(net.model.state_dict());
  std::vector<test::Pair> none;
  CHECK_THROWS_WITH_AS(find_lr(net.model, *net.optimizer, classification(net.model), none),
                       doctest::Contains("epoch 0 has no batches"), ValueError);
  int calls = 0;
  const LossFunction fails = [&](const Tensors& batch) {
    if (++calls == 4) throw DataError("no more");
    return classification(net.model)(batch);
  };
  net.model.train();
  CHECK_THROWS_AS(find_lr(net.model, *net.optimizer, fails, net.train), DataError);
  CHECK(test::values_of(net.model.state_dict()) == before);
}
