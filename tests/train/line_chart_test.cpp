#include "lathe/train/report/line_chart.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

using namespace lathe::report;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

/// The `d` of the drawn line.
std::string path_in(const std::string& svg) {
  const size_t line = svg.find("class=\"line\""), begin = svg.find(" d=\"", line) + 4;
  REQUIRE(line != std::string::npos);
  return svg.substr(begin, svg.find('"', begin) - begin);
}

std::string drawn(std::vector<ChartPoint> points, ChartAxis x = {}, ChartAxis y = {}) {
  return svg_of({.title = "t",
                 .x = std::move(x),
                 .y = std::move(y),
                 .lines = {{.name = "a", .points = std::move(points)}}});
}

}  // namespace

TEST_CASE("line chart: points stand where the axes put them") {
  // The area of the lines is 640 by 312 units; y grows downwards.
  CHECK(path_in(drawn({{0, 0}, {5, 1}, {10, 2}})) == "M0.0 312.0L320.0 156.0L640.0 0.0");
  CHECK(path_in(drawn({{1e-4, 1}, {1e-2, 3}, {1, 1}}, {.logarithmic = true})) ==
        "M0.0 312.0L320.0 0.0L640.0 312.0");
  CHECK(path_in(drawn({{0, 0}, {10, 1}}, {}, {.low = -1.0, .high = 1.0})) ==
        "M0.0 156.0L640.0 0.0");
}

TEST_CASE("line chart: dots stand alone") {
  const std::string svg =
      svg_of({.title = "t", .lines = {{.name = "a", .points = {{0, 0}, {10, 1}}, .dots = true}}});
  CHECK(svg.find("class=\"line dots\"") != std::string::npos);
  CHECK(svg.find("d=\"M0.0 312.0h0M640.0 0.0h0\"") != std::string::npos);
}

TEST_CASE("line chart: what has no place interrupts the line") {
  CHECK(path_in(drawn({{0, 0}, {1, kNan}, {2, 1}, {3, kInf}, {4, 0}})) ==
        "M0.0 312.0M320.0 0.0M640.0 312.0");
  CHECK(path_in(drawn({{0, 5}, {1, 1}, {2, -3}, {100, 10}}, {.logarithmic = true},
                      {.logarithmic = true})) == "M0.0 312.0M640.0 0.0");
}

TEST_CASE("line chart: one value, no value, and values at the ends of a double are drawn or said") {
  for (const double value : {0.0, 3.5, -1e300, 5e-324}) {
    CAPTURE(value);
    const std::string svg = drawn({{value, value}});
    CHECK(svg.find("nan") == std::string::npos);
    CHECK(path_in(svg) == "M320.0 156.0");
  }
  for (const std::vector<ChartPoint>& none :
       {std::vector<ChartPoint>{}, {{1, kNan}}, {{kInf, 1}, {-kInf, 2}}}) {
    CHECK(drawn(none).find(">no data<") != std::string::npos);
  }
  const std::string widest = drawn({{-1e308, -1e308}, {1e308, 1e308}});
  CHECK(widest.find("nan") == std::string::npos);
  CHECK(widest.find("inf") == std::string::npos);
}

TEST_CASE("line chart: ticks are round, and powers of ten on a logarithmic axis") {
  const std::string svg = drawn({{0, 0.13}, {97, 0.87}});
  for (const char* label : {">0<", ">20<", ">40<", ">80<", ">0.2<", ">0.4<", ">0.8<"})
    CHECK_MESSAGE(svg.find(label) != std::string::npos, label);
  const std::string wide = drawn({{1e-5, 1}, {10, 2}}, {.logarithmic = true});
  for (const char* label : {">1e-05<", ">0.001<", ">1<", ">10<"})
    CHECK_MESSAGE(wide.find(label) != std::string::npos, label);
  const std::string narrow = drawn({{0.1, 1}, {1, 2}}, {.logarithmic = true});
  for (const char* label : {">0.1<", ">0.2<", ">0.5<", ">1<"})
    CHECK_MESSAGE(narrow.find(label) != std::string::npos, label);
}

TEST_CASE("line chart: ticks are 1, 2 or 5 times a power of ten, four to eight of them") {
  const std::string by_five = drawn({{0, 0}, {23, 1}});
  for (const char* label : {">5<", ">15<", ">20<"})
    CHECK_MESSAGE(by_five.find(label) != std::string::npos, label);
  const std::string widest = drawn({{1e-20, 1}, {1e20, 2}}, {.logarithmic = true});
  CHECK(widest.find(">1e-15<") != std::string::npos);
  CHECK(widest.find(">1e-14<") == std::string::npos);
}

TEST_CASE("line chart: what lies far outside is as good as at the edge") {
  CHECK(path_in(drawn({{0, 0}, {1, 1e9}, {2, -1e9}}, {}, {.low = 0.0, .high = 1.0})) ==
        "M0.0 312.0L320.0 -312.0L640.0 624.0");
}

TEST_CASE(
    "line chart: faint lines are behind the others, and names are there where there are two") {
  const std::vector<ChartPoint> points{{0, 0}, {1, 1}};
  LineChart chart{.title = "t", .lines = {{.name = "a", .points = points}}};
  CHECK(svg_of(chart).find("<tspan") == std::string::npos);
  chart.lines.push_back({.name = "b", .points = points, .faint = true});
  const std::string svg = svg_of(chart);
  CHECK(count(svg, "<path class=\"line") == 2);
  const size_t faint = svg.find("<path class=\"line faint\" stroke=\"#d55e00\"");
  CHECK(faint != std::string::npos);
  CHECK(faint < svg.find("<path class=\"line\" stroke=\"#0072b2\""));
  CHECK(svg.find("<tspan dx=\"12\" fill=\"#d55e00\">\u2501</tspan> b") != std::string::npos);
}

TEST_CASE("line chart: a mark has its text beside it, and only where the axis has a place for it") {
  LineChart chart{.title = "t",
                  .x = {.logarithmic = true},
                  .lines = {{.name = "a", .points = {{1, 0}, {100, 1}}}},
                  .marks = {{10, "left"}, {90, "right"}, {0, "nowhere"}}};
  const std::string svg = svg_of(chart);
  CHECK(svg.find("d=\"M320.0 0V312\"/><text x=\"325.0\" y=\"14\" text-anchor=\"start\">left<") !=
        std::string::npos);
  CHECK(svg.find("text-anchor=\"end\">right<") != std::string::npos);
  CHECK(svg.find("nowhere") == std::string::npos);
}

TEST_CASE("line chart: a label at the right border is not cut off") {
  const std::string svg = drawn({{0, 0}, {10'000, 1}});
  CHECK(svg.find(">10000<") != std::string::npos);
  CHECK(svg.find("text-anchor=\"end\">10000<") != std::string::npos);
  CHECK(svg.find("text-anchor=\"middle\">8000<") != std::string::npos);
}

TEST_CASE("line chart: the text of a mark stands on the side that has room for it") {
  const std::string svg = svg_of({.title = "t",
                                  .lines = {{.name = "a", .points = {{0, 0}, {100, 1}}}},
                                  .marks = {{5, "early"}, {75, "late"}, {85, "last"}}});
  // 640 units are 100, and the text is 5 beside its line.
  CHECK(svg.find("x=\"37.0\" y=\"14\" text-anchor=\"start\">early<") != std::string::npos);
  CHECK(svg.find("x=\"485.0\" y=\"14\" text-anchor=\"start\">late<") != std::string::npos);
  CHECK(svg.find("x=\"539.0\" y=\"14\" text-anchor=\"end\">last<") != std::string::npos);
}

TEST_CASE("line chart: a long line keeps its peaks and stays short") {
  std::vector<ChartPoint> points;
  for (int i = 0; i < 100'000; ++i) points.push_back({static_cast<double>(i), std::sin(i * 0.01)});
  points[54'321].y = 7;
  const std::string path = path_in(drawn(points, {}, {.low = -1.0, .high = 7.0}));
  CHECK(path.size() < 30'000);
  CHECK(path.find(" 0.0L") != std::string::npos);  // the peak
}

TEST_CASE("line chart: names are text, whatever they hold") {
  const std::string hostile = "</svg><script>alert(1)</script>\"&\x1b[31m\u202egnp";
  const std::string svg = svg_of({.title = hostile,
                                  .x = {.label = hostile},
                                  .y = {.label = hostile},
                                  .lines = {{.name = hostile, .points = {{0, 0}, {1, 1}}},
                                            {.name = "b", .points = {{0, 1}, {1, 0}}}},
                                  .marks = {{0.5, hostile}}});
  CHECK(svg.find("<script") == std::string::npos);
  CHECK(count(svg, "</svg>") == 2);  // its own and that of the lines
  CHECK(svg.find('\x1b') == std::string::npos);
  CHECK(svg.find("\u202e") == std::string::npos);
  CHECK(count(svg, "&lt;script&gt;") == 7);
}
