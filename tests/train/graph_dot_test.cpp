// Recorded steps, the text of a graph's picture, and the formulas of ops.
#include "lathe/train/report/graph_dot.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "lathe/lathe.h"
#include "lathe/train/report/op_formulas.h"
#include "small_training.h"

using namespace lathe;
using namespace lathe::report;

TEST_CASE("graph as DOT: names are text, whatever they hold") {
  const std::string hostile = "<img src=x onerror=alert(1)>'\"&amp;\\n\n\x1b[31m\u202e";
  const GraphPicture picture{
      .title = hostile, .boxes = {{hostile, {hostile, std::string(300, 'a')}, 0}}, .lines = {}};
  const std::string dot = dot_of(picture);
  CHECK(dot.find('\x1b') == std::string::npos);
  CHECK(dot.find("\u202e") == std::string::npos);
  CHECK(dot.find("\\u202e") != std::string::npos);
  CHECK(dot.find(std::string(100, 'a')) == std::string::npos);
  // Every quote but those around labels is escaped, and no name of a character is left.
  CHECK(dot.find("'\\\"&amp;amp;\\\\n\\\\n\\\\x1b[31m\\\\u202e") != std::string::npos);
  CHECK(dot.starts_with(kDotBegin));
}

TEST_CASE("graph as DOT: the more a box keeps, the darker it is") {
  const GraphPicture picture{
      .title = "", .boxes = {{"a", {}, 0}, {"b", {}, 25}, {"c", {}, 100}}, .lines = {{0, 1}}};
  const std::string dot = dot_of(picture);
  CHECK(dot.find("n0 [label=\"a\\l\", fillcolor=\"#0072b20d\"];") != std::string::npos);
  CHECK(dot.find("n1 [label=\"b\\l\", fillcolor=\"#0072b240\"];") != std::string::npos);
  CHECK(dot.find("n2 [label=\"c\\l\", fillcolor=\"#0072b273\"];") != std::string::npos);
  CHECK(dot.find("n0 -> n1;") != std::string::npos);
}

TEST_CASE("graph as DOT: a long name is cut between two characters") {
  std::string name, kept;
  for (int i = 0; i < 70; ++i) name += "\u00e9";
  for (int i = 0; i < 61; ++i) kept += "\u00e9";
  const std::string dot =
      dot_of({.title = "", .boxes = {{name, {std::string(64, 'a')}, 0}}, .lines = {}});
  CHECK(dot.find("\"" + kept + "...\\l" + std::string(64, 'a') + "\\l\"") != std::string::npos);
}

TEST_CASE("graph picture: a box says layer, parameters, output and what it keeps") {
  RecordedStep step{.model = "m", .data = "d", .input = {4, 3}, .graph = {}};
  step.leaves = {{.name = "fc.weight", .shape = {2, 3}}, {.name = "", .shape = {2}}};
  step.graph.nodes = {
      {.op = "linear",
       .called = "",
       .layer = "Net.fc",
       .inputs = {{.shape = {4, 3}}, {.leaf = 0, .shape = {2, 3}}, {.leaf = 1, .shape = {2}}},
       .shape = {4, 2},
       .saved = {{.shape = {4, 3}, .bytes = 48, .input = 0},
                 {.shape = {2, 3}, .bytes = 24, .input = 1, .shared = true}}},
      {.op = "index_select",
       .called = "embedding",
       .layer = "",
       .inputs = {{.node = 0, .shape = {4, 2}}},
       .shape = {4},
       .saved = {{.shape = {4, 2}, .bytes = 2048, .output = true},
                 {.shape = {7}, .dtype = kI64, .bytes = 56}}}};
  const GraphPicture picture = picture_of(step);
  CHECK(picture.title == "m: a training step on d, 2 ops, 2.1 KiB kept for the backward pass");
  using Lines = std::vector<std::string>;
  REQUIRE(picture.boxes.size() == 3);
  CHECK(picture.boxes[0].title == "batch");
  CHECK(picture.boxes[1].title == "linear");
  CHECK(picture.boxes[1].lines ==
        Lines{"fc", "weight f32[2,3]", "b f32[2]", "-> f32[4,2]", "keeps x 48 B, w"});
  CHECK(picture.boxes[1].saved_bytes == 48);
  CHECK(picture.boxes[2].title == "index_select (of embedding)");
  CHECK(picture.boxes[2].lines == Lines{"-> f32[4]", "keeps y 2.0 KiB, i64[7] 56 B"});
  REQUIRE(picture.lines.size() == 2);
  CHECK(std::pair(picture.lines[0].from, picture.lines[0].to) == std::pair(0, 1));
  CHECK(std::pair(picture.lines[1].from, picture.lines[1].to) == std::pair(1, 2));
}

TEST_CASE("recorded step: texts of sizes and of layers") {
  CHECK(size_text(12) == "12 B");
  CHECK(size_text(64 << 10) == "64.0 KiB");
  CHECK(size_text(3 << 19) == "1.50 MiB");
  CHECK(size_text(int64_t{3} << 30) == "3.00 GiB");
  CHECK(short_layer("Net.layer1.0.conv1") == "layer1.0.conv1");
  CHECK(short_layer("Net") == "Net");
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

TEST_CASE("record_step: a program's own step has a graph, named leaves and a picture") {
  test::Net net;
  net.model.train();
  const Tensor x = full({4, 4}, 0.5), y = zeros({4}, {.dtype = kI64});
  RecordedStep step = record_step(
      net.model, [&] { return cross_entropy(net.model(x), y); }, true);
  CHECK(step.loss > 0);
  REQUIRE(step.leaves.size() == 6);
  double squares = 0;
  for (const auto& [name, parameter] : net.model.named_parameters()) {
    const auto leaf = std::ranges::find(step.leaves, name, &RecordedLeaf::name);
    REQUIRE(leaf != step.leaves.end());
    CHECK(leaf->shape == parameter.shape());
    REQUIRE(leaf->gradient_norm);
    squares += sum(square(parameter.grad())).item<double>();
  }
  CHECK(gradient_norm(step) == doctest::Approx(std::sqrt(squares)));
  CHECK(step.ranges.size() > 0);
  CHECK_FALSE(step.ranges_table.empty());
  step.model = "Net";
  step.input = x.shape();
  const std::string dot = dot_of(picture_of(step));
  CHECK(dot.find("Net: a training step on") != std::string::npos);
  CHECK(dot.find("batch_norm") != std::string::npos);
  CHECK(dot.find("n0 -> n1;") != std::string::npos);
}
