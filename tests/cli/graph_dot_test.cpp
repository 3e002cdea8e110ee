// The text of a graph's picture, and the formulas of ops.
#include "lathe/tools/cli/observe/graph_dot.h"

#include <doctest/doctest.h>

#include "lathe/tools/cli/observe/op_formulas.h"

using namespace lathe::cli;

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
