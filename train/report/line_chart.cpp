// LineChart as SVG: scales, ticks, lines, marks and the legend.
#include "lathe/train/report/line_chart.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>

#include "lathe/core/text/formatted.h"
#include "lathe/train/report/markup.h"

namespace lathe::report {
namespace {

constexpr double kWidth = 720, kHeight = 400;
constexpr double kLeft = 64, kRight = 16, kTop = 40, kBottom = 48;  // around the area of the lines
constexpr double kPlotWidth = kWidth - kLeft - kRight, kPlotHeight = kHeight - kTop - kBottom;

// Okabe and Ito (2008): colours that people with any colour vision tell apart.
constexpr std::array<std::string_view, 6> kColours = {"#0072b2", "#d55e00", "#009e73",
                                                      "#cc79a7", "#e69f00", "#56b4e9"};

constexpr std::string_view kStyle =
    "<style>.chart{color:#222;background:#fff;font:13px sans-serif}.chart text{fill:currentColor}"
    ".chart .grid{stroke:currentColor;stroke-opacity:.15}.chart .axis{stroke:currentColor}"
    ".chart .line{fill:none;stroke-width:2;stroke-linejoin:round}.chart .faint{stroke-opacity:.35;"
    "stroke-width:1}.chart .dots{stroke-width:8;stroke-linecap:round;stroke-opacity:.7}.chart "
    ".mark{stroke:currentColor;stroke-dasharray:5 4}"
    "@media (prefers-color-scheme:dark){.chart{color:#ddd;background:#181818}}</style>";

/// Maps values of one axis to 0 … 1.
class Scale {
 public:
  Scale(const ChartAxis& axis, double low, double high) : logarithmic_(axis.logarithmic) {
    low_ = place(axis.low.value_or(low));
    high_ = place(axis.high.value_or(high));
    if (!(high_ > low_)) {  // one value, or none
      const double middle = std::isfinite(low_) ? low_ : 0;
      const double room = std::max(1e-6, std::abs(middle) * 0.05);
      low_ = middle - room;
      high_ = middle + room;
    }
  }

  /// NaN for a value that has no place on the axis.
  double part(double value) const {  // halves, because the difference may exceed a double
    return (place(value) / 2 - low_ / 2) / (high_ / 2 - low_ / 2);
  }

  /// The values that get a label.
  std::vector<double> ticks() const { return logarithmic_ ? decades() : round_steps(); }

 private:
  double place(double value) const {
    if (!logarithmic_) return value;
    return value > 0 ? std::log10(value) : std::numeric_limits<double>::quiet_NaN();
  }

  // Multiples of 1, 2 or 5 times a power of ten, four to eight of them.
  std::vector<double> round_steps() const {
    const double rough = high_ / 5 - low_ / 5, power = std::pow(10, std::floor(std::log10(rough)));
    const double step = power * (rough < 1.5 * power   ? 1
                                 : rough < 3.5 * power ? 2
                                 : rough < 7.5 * power ? 5
                                                       : 10);
    std::vector<double> out;
    for (double k = std::ceil(low_ / step); k * step <= high_ && out.size() < 20; ++k)
      out.push_back(k * step);
    return out;
  }

  // Powers of ten; where there are fewer than two, also 2 and 5 times them.
  std::vector<double> decades() const {
    const double every = std::max(1.0, std::ceil((high_ - low_) / 8));
    std::vector<double> out;
    for (double k = std::floor(low_); k <= high_; k += every) {
      for (const double factor : {1.0, 2.0, 5.0}) {
        const double value = factor * std::pow(10, k), at = place(value);
        if (at >= low_ && at <= high_ && (factor == 1 || high_ - low_ < 2)) out.push_back(value);
      }
    }
    return out;
  }

  bool logarithmic_;
  double low_, high_;
};

struct Range {
  double low = std::numeric_limits<double>::infinity(), high = -low;

  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

/// The place of a point on the chart.
class Frame {
 public:
  Frame(const LineChart& chart, const Range& x, const Range& y)
      : x_(chart.x, x.low, x.high), y_(chart.y, y.low, y.high) {}

  double x(double value) const { return kPlotWidth * x_.part(value); }
  double y(double value) const { return kPlotHeight * (1 - y_.part(value)); }
  const Scale& x_scale() const { return x_; }
  const Scale& y_scale() const { return y_; }

 private:
  Scale x_, y_;
};

bool has_place(const ChartAxis& axis, double value) {
  return std::isfinite(value) && (!axis.logarithmic || value > 0);
}

bool is_drawn(const LineChart& chart, const ChartPoint& p) {
  return has_place(chart.x, p.x) && has_place(chart.y, p.y);
}

/// Of the points in each unit of width the lowest and the highest, in their order.
std::vector<ChartPoint> thinned(const std::vector<ChartPoint>& points, const Frame& frame) {
  if (points.size() <= static_cast<size_t>(2 * kPlotWidth)) return points;
  std::vector<ChartPoint> out;
  const auto unit = [&](size_t i) { return std::floor(frame.x(points[i].x)); };
  for (size_t begin = 0, end = 0; begin < points.size(); begin = end) {
    size_t low = begin, high = begin;
    // A point without a place is in no unit: NaN equals nothing, and it stays as it is.
    for (end = begin + 1; end < points.size() && unit(end) == unit(begin); ++end) {
      if (points[end].y < points[low].y) low = end;
      if (points[end].y > points[high].y) high = end;
    }
    out.push_back(points[std::min(low, high)]);
    if (low != high) out.push_back(points[std::max(low, high)]);
  }
  return out;
}

std::string path_of(const LineChart& chart, const ChartLine& line, const Frame& frame) {
  std::string path;
  bool open = false;
  for (const ChartPoint& p : thinned(line.points, frame)) {
    const bool drawn = is_drawn(chart, p);
    // Far outside is as good as at the edge; numbers stay short.
    const double y = std::clamp(frame.y(p.y), -kPlotHeight, 2 * kPlotHeight);
    if (drawn) path += formatted("{}{:.1f} {:.1f}", open ? "L" : "M", frame.x(p.x), y);
    if (drawn && line.dots) path += "h0";
    open = drawn && !line.dots;
  }
  return path;
}

std::string ticks(const LineChart& chart, const Frame& frame) {
  std::string out;
  for (const double value : frame.x_scale().ticks()) {
    const double x = kLeft + frame.x(value);
    const bool at_edge = x > kWidth - 2 * kRight;  // its middle there, the text would be cut off
    out += formatted(
        "<path class=\"grid\" d=\"M{0:.1f} {1}V{2}\"/><text x=\"{5:.1f}\" y=\"{3}\" "
        "text-anchor=\"{6}\">{4:g}</text>",
        x, kTop, kTop + kPlotHeight, kTop + kPlotHeight + 18, value, at_edge ? kWidth - 4 : x,
        at_edge ? "end" : "middle");
  }
  for (const double value : frame.y_scale().ticks()) {
    const double y = kTop + frame.y(value);
    out += formatted(
        "<path class=\"grid\" d=\"M{0} {1:.1f}H{2}\"/><text x=\"{3}\" y=\"{4:.1f}\" "
        "text-anchor=\"end\">{5:g}</text>",
        kLeft, y, kLeft + kPlotWidth, kLeft - 6, y + 4, value);
  }
  const double low = kTop + kPlotHeight;
  out += formatted("<path class=\"axis\" fill=\"none\" d=\"M{0} {1}V{2}H{3}\"/>", kLeft, kTop, low,
                   kLeft + kPlotWidth);
  out += formatted("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                   kLeft + kPlotWidth / 2, kHeight - 10, markup_text(chart.x.label));
  return out + formatted(
                   "<text x=\"14\" y=\"{0}\" text-anchor=\"middle\" "
                   "transform=\"rotate(-90 14 {0})\">{1}</text>",
                   kTop + kPlotHeight / 2, markup_text(chart.y.label));
}

std::string marks(const LineChart& chart, const Frame& frame) {
  std::string out;
  for (const ChartMark& mark : chart.marks) {
    if (!has_place(chart.x, mark.x)) continue;
    const double x = frame.x(mark.x);
    const bool right = x > kPlotWidth * 0.8;  // then the text stands on the left of the line
    out += formatted(
        "<path class=\"mark\" d=\"M{0:.1f} 0V{1}\"/><text x=\"{2:.1f}\" y=\"14\" "
        "text-anchor=\"{3}\">{4}</text>",
        x, kPlotHeight, right ? x - 5 : x + 5, right ? "end" : "start", markup_text(mark.text));
  }
  return out;
}

/// The names of the lines, in their colours, at the top right.
std::string legend(const LineChart& chart) {
  std::string names;
  for (size_t i = 0; i < chart.lines.size(); ++i) {
    names += formatted("<tspan dx=\"12\" fill=\"{}\">\u2501</tspan> {}",
                       kColours[i % kColours.size()], markup_text(chart.lines[i].name));
  }
  return formatted("<text x=\"{}\" y=\"24\" text-anchor=\"end\">{}</text>", kWidth - kRight, names);
}

}  // namespace

std::string svg_of(const LineChart& chart) {
  Range x, y;
  for (const ChartLine& line : chart.lines) {
    for (const ChartPoint& p : line.points) {
      if (!is_drawn(chart, p)) continue;
      x.add(p.x);
      y.add(p.y);
    }
  }
  std::string out = formatted(
      "{5}viewBox=\"0 0 {0} {1}\" role=\"img\" aria-label=\"{2}\">{3}<title>{2}</title>"
      "<text x=\"{4}\" y=\"24\" font-weight=\"bold\">{2}</text>",
      kWidth, kHeight, markup_text(chart.title), kStyle, kLeft, kChartBegin);
  if (x.low > x.high) {
    return out + formatted("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">no data</text></svg>\n",
                           kWidth / 2, kHeight / 2);
  }
  const Frame frame(chart, x, y);
  out += ticks(chart, frame);
  // An <svg> of its own cuts off what lies outside, but not half of a line along the border.
  out +=
      formatted("<svg x=\"{0}\" y=\"{1}\" width=\"{2}\" height=\"{3}\" viewBox=\"-2 -2 {2} {3}\">",
                kLeft - 2, kTop - 2, kPlotWidth + 4, kPlotHeight + 4);
  for (const bool faint : {true, false}) {
    for (size_t i = 0; i < chart.lines.size(); ++i) {
      if (chart.lines[i].faint != faint) continue;
      out += formatted("<path class=\"line{}{}\" stroke=\"{}\" d=\"{}\"/>", faint ? " faint" : "",
                       chart.lines[i].dots ? " dots" : "", kColours[i % kColours.size()],
                       path_of(chart, chart.lines[i], frame));
    }
  }
  out += marks(chart, frame) + "</svg>";
  if (chart.lines.size() > 1) out += legend(chart);
  return out + "</svg>\n";
}

}  // namespace lathe::report
