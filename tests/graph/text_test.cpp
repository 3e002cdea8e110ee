// The text of graphs: what is read, what is refused with its line, and pictures.
#include <doctest/doctest.h>

#include <string>

#include "lathe/graph/graph.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/isclose.h"

using namespace lathe;
using doctest::Contains;

namespace {

const std::string kText =
    "lathe graph 1\n"
    "input %x: f32[N,3]\n"
    "param @w: f32[2,3]\n"
    "const @c: i64[1] = -4\n"
    "const @d: f64[] = inf\n"
    "const @e: bool[] = true\n"
    "%0: f32[N,2] = linear(%x, @w, none)  # Net.fc\n"
    "%1: f32[N,2] = leaky_relu(%0, slope=1e-05)\n"
    "%2: f32[2*N] = reshape(%1, shape=[2*N])\n"
    "%3: f32[2*N] = where(@e, %2, @c)\n"
    "%4: f32[2*N,2] = pad(%3, amounts=[0,1], mode=\"reflect\")\n"
    "%5: f64[] = neg(@d)\n"
    "output %4, %5\n";

void check_refused(const std::string& from, const std::string& to, const char* what) {
  std::string text = kText;
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  CHECK_THROWS_WITH_AS(jit::parse(text.replace(at, from.size(), to), "g"), Contains(what),
                       DataError);
}

}  // namespace

TEST_CASE("graph: text is read and printed alike") {
  CHECK(jit::parse(kText).text() == kText);
  CHECK(jit::parse(kText).dot().find("linear\\nf32[N,2]\\nNet.fc") != std::string::npos);
}

TEST_CASE("graph: text with faults is refused with its line") {
  check_refused("graph 1", "graph 2", "g:1: expected \"lathe graph 1\"");
  check_refused("param @w", "param @x", "g:7: @w is not defined before its use");
  check_refused("%0: f32[N,2]", "%x: f32[N,2]", "%x is defined twice");
  check_refused("f32[2,3]", "f33[2,3]", "g:3: expected a dtype");
  check_refused("f32[2,3]", "f32[2,-3]", "a negative size");
  check_refused("f32[2,3]", "f32[N,3]", "cannot depend on the batch");
  check_refused("f32[2,3]", "f32[4611686018427387904,3]", "g:3: ");
  check_refused("f32[2,3]", "f32[1,1,1,1,1,1,1,1,1]", "9 dimensions");
  check_refused("f32[2,3]", "f32[99999999999999999999]", "expected an integer");
  check_refused("i64[1] = -4", "i64[1] = 1.5", "no number of i64");
  check_refused("i64[1] = -4", "i64[2] = -4", "one number for i64[2]");
  check_refused("input %x: f32[N,3]", "input %x: f32[2,3]", "no input has it");
  check_refused("linear(", "system(", "no op \"system\"");
  check_refused("linear(%x, @w, none)", "linear(%x, @w)", "does not take 2 tensors");
  check_refused("slope=1e-05", "slope=1", "slope has a value of the wrong type");
  check_refused("slope=1e-05", "angle=1e-05", "no op \"leaky_relu\" with these attributes");
  check_refused("mode=\"reflect\"", "mode=\"reflect", "a word does not end");
  check_refused("output %4, %5\n", "", "no line of outputs");
  check_refused("output %4, %5", "output %4, %5\nparam @z: f32[1]", "nothing may follow");
  check_refused("output %4", "output %4 ", "expected the end of the line");
}

TEST_CASE("graph: tensors are bound by name, all or none") {
  jit::Graph graph = jit::parse(
      "lathe graph 1\ninput %x: f32[N,3]\nparam @w: f32[2,3]\nparam @b: f32[2]\n"
      "%0: f32[N,2] = linear(%x, @w, @b)\noutput %0\n");
  CHECK_THROWS_WITH_AS(graph(ones({1, 3})), Contains("@w has no tensor yet"), StateError);
  StateDict state;
  state.add("w", ones({2, 3}));
  CHECK_THROWS_WITH_AS(graph.bind(state), Contains("no tensor for b"), ValueError);
  CHECK(graph.state().empty());
  StateDict wrong = state;
  wrong.add("b", ones({3}));
  CHECK_THROWS_WITH_AS(graph.bind(wrong), Contains("@b must be f32[2]"), ShapeError);
  state.add("b", ones({2}));
  graph.bind(state);
  CHECK(equal(graph(ones({1, 3})), full({1, 2}, 4.0f)));
}
