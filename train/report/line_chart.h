// Line charts as SVG: curves over steps or rates, and dots beside a curve. The text refers to
// nothing outside of itself and has no script.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/core/config.h"

namespace lathe::report {

struct ChartPoint {
  double x, y;
};

struct ChartLine {
  std::string name;
  std::vector<ChartPoint> points = {};  // x does not fall
  bool faint = false;                   // drawn behind the others, in a lighter colour
  bool dots = false;                    // the points are drawn, and no line between them
};

/// A vertical line with a text.
struct ChartMark {
  double x;
  std::string text;
};

/// An axis. Without `low` and `high` it covers the values.
struct ChartAxis {
  std::string label = {};
  bool logarithmic = false;
  std::optional<double> low = {}, high = {};
};

struct LineChart {
  std::string title;
  ChartAxis x, y;
  std::vector<ChartLine> lines;
  std::vector<ChartMark> marks = {};
};

/// One <svg> element, 720 by 400 units, which takes the width that there is. It is dark on light,
/// or light on dark where the reader's system asks for that. Points that are not finite, or not
/// above 0 on a logarithmic axis, interrupt their line. What lies outside of the axes is cut off.
/// If a line has many points, only the lowest and the highest point of each unit of width are
/// drawn. If there is no point to draw, the chart has a text that says so.
LATHE_API std::string svg_of(const LineChart& chart);

/// What each of them begins with.
inline constexpr std::string_view kChartBegin =
    "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" ";

}  // namespace lathe::report
