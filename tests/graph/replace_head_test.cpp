// replace_head(): a graph with a new last layer. The oracle is the trace of a model that was made
// with as many classes.
#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "lathe/autograd/grad_mode.h"
#include "lathe/graph/graph_module.h"
#include "lathe/graph/replace_head.h"
#include "lathe/graph/trace.h"
#include "lathe/nn/fine_tuning.h"
#include "lathe/nn/models.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"
#include "lathe/tests/data/files.h"

using namespace lathe;
using data::testing::message_of;

namespace {

jit::Graph traced(const std::string& name, int64_t classes) {
  const auto model =
      nn::make_model(name, {.classes = classes, .image_size = 32, .stem = nn::Stem::kCifar});
  model->eval();
  const NoGrad off;
  return jit::trace(*model, zeros({2, 3, 32, 32}));
}

/// A graph of these lines whose parameters are zeros.
jit::Graph bound(const std::string& lines) {
  jit::Graph graph = jit::parse("lathe graph 1\n" + lines);
  StateDict zeros_of;
  for (const jit::Value& value : graph.values) {
    if (value.origin != jit::Origin::kParameter) continue;
    Shape shape;
    for (const jit::Size& size : value.type.shape) shape.push_back(size.fixed);
    zeros_of.add(value.name, zeros(shape));
  }
  graph.bind(zeros_of);
  return graph;
}

/// The error of such a graph.
std::string refusal(const std::string& lines) {
  jit::Graph graph = bound(lines);
  const std::string before = graph.text();
  const std::string message = message_of<ValueError>([&] { jit::replace_head(graph, 5); });
  CHECK(graph.text() == before);
  return message;
}

const std::string kStart =
    "input %x: f32[N,3]\n"
    "param @w: f32[4,3]\n"
    "param @b: f32[4]\n";

}  // namespace

TEST_CASE("replace_head: the graph is that of a model with as many classes") {
  for (const char* const name : {"resnet8", "mobilenet_v2", "resnet18"}) {
    CAPTURE(name);
    jit::Graph graph = traced(name, 10);
    const StateDict before = graph.state();
    jit::replace_head(graph, 3);
    CHECK(graph.text() == traced(name, 3).text());
    std::vector<double> largest;  // of what changed: the weight, the bias
    double fan_in = 0;
    for (const auto& [entry, tensor] : graph.state()) {
      if (tensor.handle() == before.at(entry).handle()) continue;
      CHECK(tensor.dim(0) == 3);
      if (tensor.ndim() == 2) fan_in = static_cast<double>(tensor.dim(1));
      largest.push_back(max(abs(tensor)).item<double>());
    }
    REQUIRE(largest.size() == 2);
    for (const double value : largest) {
      CHECK(value <= 1 / std::sqrt(fan_in));
      CHECK(value > 0.1 / std::sqrt(fan_in));
    }
    const NoGrad off;
    CHECK(graph(zeros({4, 3, 32, 32})).shape() == Shape{4, 3});
  }
}

TEST_CASE("replace_head: a product with its bias, and views behind it") {
  jit::Graph graph = jit::parse(
      "lathe graph 1\n"
      "input %x: f32[N,3]\n"
      "param @w: f32[3,4]\n"
      "param @b: f32[4]\n"
      "%0: f32[N,4] = matmul(%x, @w)\n"
      "%1: f32[N,4] = add(%0, @b)\n"
      "%2: f32[N,4,1] = reshape(%1, shape=[N,4,1])\n"
      "%3: f32[N,4] = flatten(%2, first=1, last=2)\n"
      "output %3\n");
  StateDict state;
  state.add("w", zeros({3, 4}));
  state.add("b", zeros({4}));
  graph.bind(state);
  jit::replace_head(graph, 5);
  CHECK(graph.text() ==
        "lathe graph 1\n"
        "input %x: f32[N,3]\n"
        "param @w: f32[3,5]\n"
        "param @b: f32[5]\n"
        "%0: f32[N,5] = matmul(%x, @w)\n"
        "%1: f32[N,5] = add(%0, @b)\n"
        "%2: f32[N,5,1] = reshape(%1, shape=[N,5,1])\n"
        "%3: f32[N,5] = flatten(%2, first=1, last=2)\n"
        "output %3\n");
  CHECK(graph(zeros({2, 3})).shape() == Shape{2, 5});
}

TEST_CASE("replace_head: what has no last layer that can be replaced is refused") {
  CHECK(refusal(kStart + "%0: f32[N,4] = linear(%x, @w, @b)\n"
                         "%1: f32[N,4] = cumsum(%0, dim=1)\n"
                         "output %1\n")
            .find("its result comes from \"cumsum\"") != std::string::npos);
  CHECK(refusal(kStart + "%0: f32[N,4] = linear(%x, @w, @b)\n"
                         "%1: f32[N,4] = relu(%0)\n"
                         "output %0, %1\n")
            .find("it has 2 results") != std::string::npos);
  CHECK(refusal(kStart + "%0: f32[N,4] = linear(%x, @w, @b)\n"
                         "%1: f32[N,4] = add(%0, @b)\n"
                         "output %1\n")
            .find("@b is used 2 times") != std::string::npos);
  CHECK(refusal(kStart + "param @c: f32[4]\n"
                         "%0: f32[N,4] = linear(%x, @w, @b)\n"
                         "%1: f32[N,4] = add(%0, @c)\n"
                         "output %1\n")
            .find("a parameter is added") != std::string::npos);
  CHECK(refusal("input %x: f32[N,3]\n"
                "param @w: f32[1,3]\n"
                "param @b: f32[1]\n"
                "%0: f32[N,1] = linear(%x, @w, @b)\n"
                "%1: f32[N,1,1] = unsqueeze(%0, dim=2)\n"
                "output %1\n")
            .find("has 2 sizes of 1") != std::string::npos);
  // Which of two equal sizes is the classes'?
  CHECK(refusal("input %x: f32[N,4,3]\nparam @w: f32[4,3]\n"
                "%0: f32[N,4,4] = linear(%x, @w, none)\n"
                "%1: f32[N,4,4] = transpose(%0, a=1, b=2)\n"
                "%2: f32[N,4] = mean(%1, dims=[2], keepdim=false)\n"
                "output %2\n")
            .find("what goes into \"transpose\" has 2 sizes of 4") != std::string::npos);
  CHECK(refusal("input %x: f32[N,2,4,4]\nparam @w: f32[4,2,1,1]\n"
                "%0: f32[N,4,4,4] = conv2d(%x, @w, none, stride=[1,1], pad=[0,0], dilation=[1,1], "
                "groups=1)\n"
                "%1: f32[N,4,4,4] = permute(%0, order=[0,2,3,1])\n"
                "output %1\n")
            .find("what goes into \"permute\" has 3 sizes of 4") != std::string::npos);
  CHECK(refusal("input %x: f32[N,4,2]\nparam @w: f32[3,2]\n"
                "%0: f32[N,4,3] = linear(%x, @w, none)\n"
                "%1: f32[N,3,4] = reshape(%0, shape=[N,3,4])\n"
                "output %1\n")
            .find("\"reshape\" merges the dimension of the classes with another one") !=
        std::string::npos);
  CHECK(refusal("input %x: f32[N,4,4,2]\nparam @w: f32[4,2]\n"
                "%0: f32[N,4,4,4] = linear(%x, @w, none)\n"
                "%1: f32[N,4,2,2] = avg_pool2d(%0, kernel=[2,2], stride=[2,2], pad=[0,0], "
                "ceil_mode=false, count_include_pad=true, divisor_override=\"none\")\n"
                "output %1\n")
            .find("the result of \"avg_pool2d\" has no size of 4 in dimension 3") !=
        std::string::npos);
  CHECK(refusal("input %x: f32[N,3]\noutput %x\n").find("no layer makes its result") !=
        std::string::npos);
  jit::Graph graph;
  CHECK_THROWS_AS(jit::replace_head(graph, 0), ValueError);
}

TEST_CASE("replace_head: the classes move with a transpose") {
  jit::Graph graph = jit::parse(
      "lathe graph 1\n"
      "input %x: f32[N,6,3]\n"
      "param @w: f32[4,3]\n"
      "%0: f32[N,6,4] = linear(%x, @w, none)\n"
      "%1: f32[N,4,6] = transpose(%0, a=1, b=2)\n"
      "%2: f32[N,4] = mean(%1, dims=[2], keepdim=false)\n"
      "output %2\n");
  StateDict state;
  state.add("w", zeros({4, 3}));
  graph.bind(state);
  jit::replace_head(graph, 5);
  CHECK(graph(zeros({2, 6, 3})).shape() == Shape{2, 5});
}

TEST_CASE("head_of: of a graph it is the layer that makes the result, wherever its weights stand") {
  const auto head_of = [](const std::string& lines) {
    jit::Graph graph = bound(lines);
    return nn::head_of(jit::GraphModule(graph));
  };
  const std::string layers =
      "%0: f32[N,3] = linear(%x, @body.weight, none)\n"
      "%1: f32[N,4] = linear(%0, @";
  CHECK(head_of("input %x: f32[N,3]\nparam @fc.weight: f32[4,3]\nparam @fc.bias: f32[4]\n"
                "param @body.weight: f32[3,3]\n" +
                layers + "fc.weight, @fc.bias)\noutput %1\n") == "fc");
  CHECK(head_of("input %x: f32[N,3]\nparam @w: f32[4,3]\nparam @fc.bias: f32[4]\n"
                "param @body.weight: f32[3,3]\n" +
                layers + "w, @fc.bias)\noutput %1\n")
            .empty());
  // No single layer makes the result: the one that is registered last.
  CHECK(head_of("input %x: f32[N,3]\nparam @fc.weight: f32[4,3]\nparam @fc.bias: f32[4]\n"
                "param @body.weight: f32[3,3]\n" +
                layers + "fc.weight, @fc.bias)\n%2: f32[N,4] = cumsum(%1, dim=1)\noutput %2\n") ==
        "body");
}
