// The range test: smoothing, the end of the test, the suggestion, and the plot in characters.
#include "lathe/tools/cli/commands/lr_range.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "lathe/tools/cli/exit_codes.h"
#include "lathe/tools/cli/parse_value.h"

namespace lathe::cli {
namespace {

bool lower(const LrRangePoint& a, const LrRangePoint& b) { return a.smoothed < b.smoothed; }

}  // namespace

LrRange::LrRange(const LrRangeOptions& options) : options_(options) {
  if (!(options.min_lr > 0 && options.min_lr < options.max_lr)) {
    throw UsageError(fmt::format("--min-lr {} must be above 0 and below --max-lr {}",
                                 number_text(options.min_lr), number_text(options.max_lr)));
  }
  if (!std::isfinite(options.max_lr / options.min_lr)) {
    throw UsageError(fmt::format("--max-lr {} divided by --min-lr {} is more than a double holds",
                                 number_text(options.max_lr), number_text(options.min_lr)));
  }
  if (options.steps < 2)
    throw UsageError(fmt::format("--sweep-steps {}: at least 2 are needed", options.steps));
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

const LrRangePoint& LrRange::lowest() const { return *std::ranges::min_element(points_, lower); }

double LrRange::suggestion() const {
  if (points_.size() < 2) return 0;
  // The learning rates are equally spaced on the logarithmic axis, so differences of the loss are
  // slopes. They are taken over several points, because single losses are noisy.
  const auto end = static_cast<size_t>(&lowest() - points_.data());
  const size_t last = points_.size() - 1, reach = std::max<size_t>(points_.size() / 16, 1);
  double steepest = 0, lr = 0;
  for (size_t i = 0; i <= end; ++i) {
    const size_t before = i - std::min(i, reach), after = std::min(i + reach, last);
    if (i < reach && reach < end) continue;  // the first means are of too few losses
    const double slope =
        (points_[after].smoothed - points_[before].smoothed) / static_cast<double>(after - before);
    if (slope < steepest) {
      steepest = slope;
      lr = points_[i].lr;
    }
  }
  return lr;
}

std::string lr_plot(const LrRange& range, int width, int height) {
  const auto& points = range.points();
  if (points.size() < 2) return "";
  // Higher losses are cut: as far above the first loss as the lowest is below it is enough.
  const double low = range.lowest().smoothed, begin = points.front().smoothed;
  const double highest = std::ranges::max_element(points, lower)->smoothed;
  const double cap = begin + std::max(begin - low, 0.1 * std::abs(begin));
  const double high = std::max(std::min(highest, cap), low + 1e-12 * std::max(1.0, std::abs(low)));
  const auto columns = static_cast<size_t>(width), rows = static_cast<size_t>(height);
  const auto column_of = [&](size_t i) { return i * (columns - 1) / (points.size() - 1); };

  std::vector<std::string> picture(rows, std::string(columns, ' '));
  const double suggested = range.suggestion();
  for (size_t i = 0; i < points.size(); ++i) {
    if (points[i].lr != suggested) continue;
    for (std::string& line : picture) line[column_of(i)] = '|';
  }
  for (size_t i = 0; i < points.size(); ++i) {
    const double part = std::min((high - points[i].smoothed) / (high - low), 1.0);
    if (part < 0) continue;
    picture[static_cast<size_t>(std::lround(part * static_cast<double>(rows - 1)))][column_of(i)] =
        '*';
  }

  std::string text;
  for (size_t r = 0; r < rows; ++r) {
    const double loss =
        high - (high - low) * static_cast<double>(r) / static_cast<double>(rows - 1);
    std::string& line = picture[r];
    line.erase(line.find_last_not_of(' ') + 1);
    text += fmt::format("{:>8.3f} |{}\n", loss, line);
  }
  const std::string left = fmt::format("{:.1e}", points.front().lr),
                    right = fmt::format("{:.1e}", points.back().lr);
  const size_t gap =
      columns > left.size() + right.size() ? columns - left.size() - right.size() : 1;
  text += fmt::format("{:>8} +{}\n", "loss", std::string(columns, '-'));
  text += fmt::format("{:>8}  {}{}{}", "lr", left, std::string(gap, ' '), right);
  return text;
}

Row lr_range_row(const LrRangePoint& point, int64_t step) {
  return Row()
      .add("step", step)
      .add("lr", point.lr)
      .add("loss", point.loss)
      .add("smoothed_loss", point.smoothed);
}

}  // namespace lathe::cli
