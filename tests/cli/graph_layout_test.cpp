// Layouts of graphs, and what the pictures make of names.
#include "lathe/tools/cli/observe/graph_layout.h"

#include <doctest/doctest.h>

#include <random>

#include "lathe/tools/cli/observe/graph_picture.h"
#include "lathe/tools/cli/observe/op_formulas.h"

using namespace lathe::cli;

namespace {

bool overlap(Place a, Box s, Place b, Box t) {
  return a.x < b.x + t.width && b.x < a.x + s.width && a.y < b.y + t.height && b.y < a.y + s.height;
}

void check_layout(const std::vector<Box>& boxes, const std::vector<Line>& lines) {
  const GraphLayout layout = lay_out(boxes, lines);
  REQUIRE(layout.boxes.size() == boxes.size());
  REQUIRE(layout.lines.size() == lines.size());
  for (size_t i = 0; i < boxes.size(); ++i) {
    const Place p = layout.boxes[i];
    CHECK(p.x >= -0.5);
    CHECK(p.x + boxes[i].width <= layout.width + 1);
    CHECK(p.y + boxes[i].height <= layout.height + 0.5);
    for (size_t k = 0; k < i; ++k) CHECK_FALSE(overlap(p, boxes[i], layout.boxes[k], boxes[k]));
  }
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::vector<Place>& line = layout.lines[i];
    const auto from = static_cast<size_t>(lines[i].from), to = static_cast<size_t>(lines[i].to);
    CHECK(line.front().y == layout.boxes[from].y + boxes[from].height);
    CHECK(line.back().y == layout.boxes[to].y);
    CHECK(line.back().x >= layout.boxes[to].x);
    CHECK(line.back().x <= layout.boxes[to].x + boxes[to].width);
    // Where a line passes a layer it goes straight down, and touches no box.
    for (size_t k = 1; k + 1 < line.size(); k += 2) {
      CHECK(line[k].x == line[k + 1].x);
      for (size_t b = 0; b < boxes.size(); ++b)
        CHECK_FALSE(overlap({line[k].x, line[k].y}, {0.01, line[k + 1].y - line[k].y},
                            layout.boxes[b], boxes[b]));
    }
    for (size_t k = 1; k < line.size(); ++k) CHECK(line[k].y >= line[k - 1].y);
  }
}

}  // namespace

TEST_CASE("graph layout: a chain is a column, and a shortcut goes round it") {
  const std::vector<Box> boxes(5, {100, 40});
  const std::vector<Line> lines = {{0, 1}, {1, 2}, {2, 3}, {3, 4}, {0, 4}};
  const GraphLayout layout = lay_out(boxes, lines);
  for (size_t i = 1; i < boxes.size(); ++i) {
    CHECK(layout.boxes[i].x == layout.boxes[0].x);
    CHECK(layout.boxes[i].y > layout.boxes[i - 1].y + 40);
  }
  CHECK(layout.lines[4].size() == 8);  // past three boxes
  CHECK(layout.lines[4][2].x > layout.boxes[1].x + 100);
  check_layout(boxes, lines);
  check_layout({}, {});
  check_layout({{80, 20}}, {});
}

TEST_CASE("graph layout: boxes never overlap, and lines stay between them") {
  std::mt19937 random(7);
  for (int round = 0; round < 60; ++round) {
    const int count = 2 + static_cast<int>(random() % 30);
    std::vector<Box> boxes;
    std::vector<Line> lines;
    for (int i = 0; i < count; ++i) {
      boxes.push_back(
          {40.0 + static_cast<double>(random() % 200), 20.0 + static_cast<double>(random() % 80)});
      for (unsigned k = random() % 4; i > 0 && k > 0; --k)
        lines.push_back({static_cast<int>(random() % static_cast<unsigned>(i)), i});
    }
    CAPTURE(round);
    check_layout(boxes, lines);
  }
}

TEST_CASE("graph pictures: names are text, whatever they hold") {
  const std::string hostile = "<img src=x onerror=alert(1)>'\"&amp;\\n\n\x1b[31m\u202e";
  GraphPicture picture{
      .title = hostile, .boxes = {{hostile, {hostile, std::string(300, 'a')}, 0}}, .lines = {}};
  const std::string svg = svg_of(picture), dot = dot_of(picture);
  for (const std::string& text : {svg, dot}) {
    CHECK(text.find('\x1b') == std::string::npos);
    CHECK(text.find("\u202e") == std::string::npos);
    CHECK(text.find("\\u202e") != std::string::npos);
    CHECK(text.find(std::string(100, 'a')) == std::string::npos);
  }
  CHECK(svg.find("<img") == std::string::npos);
  CHECK(svg.find("&lt;img src=x onerror=alert(1)&gt;&#39;&quot;&amp;amp;") != std::string::npos);
  // In DOT every quote but those around labels is escaped, and no name of a character is left.
  CHECK(dot.find("'\\\"&amp;amp;\\\\n\\\\n\\\\x1b[31m\\\\u202e") != std::string::npos);
  CHECK(svg.starts_with(kGraphSvgBegin));
  CHECK(dot.starts_with(kDotBegin));
}

TEST_CASE("op formulas: each names its inputs and its result") {
  for (const OpFormula& formula : all_formulas()) {
    CAPTURE(formula.op);
    CHECK(find_formula(formula.op) == &formula);  // no name twice
    CHECK(formula.forward.starts_with("y"));
    CHECK_FALSE(formula.backward.empty());
    CHECK(input_name(&formula, 0) == formula.inputs.substr(0, formula.inputs.find(' ')));
  }
  CHECK(input_name(find_formula("linear"), 2) == "b");
  CHECK(input_name(find_formula("cat"), 3) == "x4");
  CHECK(input_name(nullptr, 0) == "x");
  CHECK(find_formula("relu_grad") == nullptr);
}
