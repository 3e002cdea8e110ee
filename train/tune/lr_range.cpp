// The range test: smoothing, the end of the test, the suggestion, and the plot in characters.
#include "lathe/train/tune/lr_range.h"

#include <algorithm>
#include <cmath>

#include "lathe/core/error.h"
#include "lathe/core/text/formatted.h"
#include "lathe/train/report/line_chart.h"

namespace lathe::train {

namespace {

bool lower(const LrRangePoint& a, const LrRangePoint& b) { return a.smoothed < b.smoothed; }

/// The rate around which the smoothed loss falls most steeply, of the points from `first` to `end`.
/// 0: it falls nowhere. The rates are equally spaced on the logarithmic axis, so differences of the
/// loss are slopes. They are taken over several points, because single losses are noisy.
double steepest_fall(const std::vector<LrRangePoint>& points, size_t first, size_t end) {
  const size_t last = points.size() - 1, reach = std::max<size_t>(points.size() / 16, 1);
  double steepest = 0, lr = 0;
  for (size_t i = first; i <= end; ++i) {
    const size_t before = std::max(i - std::min(i, reach), first);
    const size_t after = std::min(i + reach, last);
    const double slope =
        (points[after].smoothed - points[before].smoothed) / static_cast<double>(after - before);
    if (slope < steepest) {
      steepest = slope;
      lr = points[i].lr;
    }
  }
  return lr;
}

struct Losses {
  double low, high;
};

/// The losses that a picture shows. Higher ones are cut: as far above the first loss as the lowest
/// is below it is enough.
Losses shown_losses(const LrRange& range) {
  const double low = range.lowest().smoothed, begin = range.points().front().smoothed;
  const double highest = std::ranges::max_element(range.points(), lower)->smoothed;
  const double cap = begin + std::max(begin - low, 0.1 * std::abs(begin));
  return {low, std::max(std::min(highest, cap), low + 1e-12 * std::max(1.0, std::abs(low)))};
}

}  // namespace

LrRange::LrRange(const LrRangeOptions& options) : options_(options) {
  LATHE_CHECK(ValueError, options.min_lr > 0 && options.min_lr < options.max_lr,
              "LrRange: min_lr must be above 0 and below max_lr, got ", options.min_lr, " and ",
              options.max_lr);
  LATHE_CHECK(ValueError, std::isfinite(options.max_lr / options.min_lr), "LrRange: max_lr ",
              options.max_lr, " divided by min_lr ", options.min_lr,
              " is more than a double holds");
  LATHE_CHECK(ValueError, options.steps >= 2, "LrRange: at least 2 steps are needed, got ",
              options.steps);
}

double LrRange::lr_at(int64_t step) const {
  const double t = static_cast<double>(step) / static_cast<double>(options_.steps - 1);
  return options_.min_lr * std::pow(options_.max_lr / options_.min_lr, t);
}

bool LrRange::add(double loss) {
  diverged_ = !std::isfinite(loss);
  if (diverged_) return false;
  const auto step = static_cast<int64_t>(points_.size());
  mean_ = options_.smoothing * mean_ + (1 - options_.smoothing) * loss;
  const double weight = 1 - std::pow(options_.smoothing, static_cast<double>(step + 1));
  points_.push_back({lr_at(step), loss, mean_ / weight});
  diverged_ = points_.back().smoothed > options_.divergence * lowest().smoothed;
  return !diverged_ && step + 1 < options_.steps;
}

const LrRangePoint& LrRange::lowest() const {
  const size_t first = first_used() < points_.size() ? first_used() : 0;
  return *std::min_element(points_.begin() + static_cast<std::ptrdiff_t>(first), points_.end(),
                           lower);
}

size_t LrRange::first_used() const {
  return static_cast<size_t>(options_.skipped * static_cast<double>(options_.steps));
}

// Of a smoothed loss. The losses scatter around the mean that follows them with a variance s²; an
// exponential mean of losses with this variance, independent of each other, has (1-b)/(1+b) of it.
double LrRange::standard_error() const {
  double sum = 0;
  size_t count = 0;
  for (size_t i = first_used(); i < points_.size(); ++i, ++count) {
    if (points_[i].lr > lowest().lr) break;  // beyond it the loss leaves its mean behind
    sum += std::pow(points_[i].loss - points_[i].smoothed, 2);
  }
  const double of_mean = (1 - options_.smoothing) / (1 + options_.smoothing);
  return count > 0 ? std::sqrt(sum / static_cast<double>(count) * of_mean) : 0;
}

// An exponential mean is that of about 1 / (1-b) losses.
bool LrRange::few_points() const {
  return static_cast<double>(points_.size()) < std::round(4 / (1 - options_.smoothing));
}

// Half of the steps is a test of its own, with other batches.
bool LrRange::is_steady() const {
  double rates[2];
  for (const size_t half : {0, 1}) {
    LrRangeOptions options = options_;
    options.steps = std::max<int64_t>(options.steps / 2, 2);
    options.smoothing = options_.smoothing * options_.smoothing;  // over as many learning rates
    LrRange part(options);
    for (size_t i = half; i < points_.size(); i += 2) {
      part.add(points_[i].loss);
      part.points_.back().lr = points_[i].lr;
    }
    const size_t first = part.first_used();
    if (part.points_.size() < first + 2) return false;
    const auto end = static_cast<size_t>(&part.lowest() - part.points_.data());
    rates[half] = steepest_fall(part.points_, first, end);
  }
  const auto [low, high] = std::minmax(rates[0], rates[1]);
  return low > 0 && std::log10(high / low) <= 0.5;
}

LrSuggestion LrRange::suggestion() const {
  const size_t first = first_used();
  if (points_.size() < first + 3 || few_points()) return {0, LrRemark::kTooFewSteps};
  const auto end = static_cast<size_t>(&lowest() - points_.data());
  const double fall = points_[first].smoothed - lowest().smoothed;
  if (end <= first || fall <= 0) return {0, LrRemark::kNoFall};
  // The first mean and the lowest of about ten independent ones differ by chance: by 1.5 standard
  // errors on average, give or take 1.2.
  if (fall <= 5 * standard_error()) return {0, LrRemark::kMayBeChance};
  const double lr = steepest_fall(points_, first, end);
  if (lr > 0 && !is_steady()) return {0, LrRemark::kUnsteady};
  LrSuggestion found{lr, LrRemark::kNone};
  if (!diverged_ && end + 1 == points_.size()) found.remark = LrRemark::kStillFalls;
  return found;
}

std::string lr_plot(const LrRange& range, int width, int height) {
  const auto& points = range.points();
  if (points.size() < 2) return "";
  const auto [low, high] = shown_losses(range);
  const auto columns = static_cast<size_t>(width), rows = static_cast<size_t>(height);
  const auto column_of = [&](size_t i) { return i * (columns - 1) / (points.size() - 1); };

  std::vector<std::string> picture(rows, std::string(columns, ' '));
  const double suggested = range.suggestion().lr;
  for (size_t i = 0; i < points.size(); ++i) {
    if (points[i].lr != suggested) continue;
    for (std::string& line : picture) line[column_of(i)] = '|';
  }
  for (size_t i = 0; i < points.size(); ++i) {
    const double part = std::min((high - points[i].smoothed) / (high - low), 1.0);
    if (part < 0) continue;
    picture[static_cast<size_t>(std::lround(part * static_cast<double>(rows - 1)))][column_of(i)] =
        i < range.first_used() ? '.' : '*';
  }

  std::string text;
  for (size_t r = 0; r < rows; ++r) {
    const double loss =
        high - (high - low) * static_cast<double>(r) / static_cast<double>(rows - 1);
    std::string& line = picture[r];
    line.erase(line.find_last_not_of(' ') + 1);
    text += formatted("{:>8.3f} |{}\n", loss, line);
  }
  const std::string left = formatted("{:.1e}", points.front().lr),
                    right = formatted("{:.1e}", points.back().lr);
  const size_t gap =
      columns > left.size() + right.size() ? columns - left.size() - right.size() : 1;
  text += formatted("{:>8} +{}\n", "loss", std::string(columns, '-'));
  text += formatted("{:>8}  {}{}{}", "lr", left, std::string(gap, ' '), right);
  return text;
}

std::string lr_svg(const LrRange& range) {
  const auto [low, high] = shown_losses(range);
  report::ChartLine single{.name = "loss", .faint = true}, smoothed{.name = "smoothed"};
  for (const LrRangePoint& point : range.points()) {
    single.points.push_back({point.lr, point.loss});
    smoothed.points.push_back({point.lr, point.smoothed});
  }
  report::LineChart chart{.title = "Learning-rate range test",
                          .x = {.label = "learning rate", .logarithmic = true},
                          .y = {.label = "loss", .low = low - 0.05 * (high - low), .high = high},
                          .lines = {std::move(single), std::move(smoothed)}};
  if (const double lr = range.suggestion().lr; lr > 0)
    chart.marks.push_back({lr, formatted("{:.2g}", lr)});
  return report::svg_of(chart);
}

}  // namespace lathe::train
