// Graphs as --model: constants that a checkpoint's text does not hold, weights that may be
// constants, and last layers that are no module.
#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "lathe/graph/file.h"
#include "lathe/ops/creation.h"
#include "lathe/tests/cli/temporary_folder.h"
#include "lathe/tools/cli/exit_codes.h"
#include "lathe/tools/cli/settings/settings.h"
#include "lathe/tools/cli/training/fine_tuning.h"
#include "lathe/tools/cli/training/graph_model.h"

using namespace lathe;
using cli::Settings, cli::UsageError;
using lathe::test::TemporaryFolder;

namespace {

/// A graph with a constant of two numbers and one that is NaN. `more`: nodes from %0 to %1.
std::string file_of(const TemporaryFolder& folder, const std::string& more) {
  jit::Graph graph = jit::parse(
      "lathe graph 1\n"
      "input %x: f32[N,3]\n"
      "param @w: f32[2,3]\n"
      "const @one: f32[] = 1.0\n"
      "const @table: f32[2]\n"
      "const @none: f32[]\n"
      "%0: f32[N,2] = linear(%x, @w, none)\n" +
      more +
      "%2: f32[N,2] = add(%1, @one)\n"
      "%3: f32[N,2] = add(%2, @table)\n"
      "%4: f32[N,2] = add(%3, @none)\n"
      "output %4\n");
  StateDict state;
  state.add("w", zeros({2, 3}));
  state.add("table", tensor({0.5f, 2.f}));
  state.add("none", full({}, NAN, {.dtype = kF32}));
  graph.bind(state);
  const std::string path = (folder.path() / "m.lathe").string();
  jit::save(graph, path);
  return path;
}

/// A model of these lines, whose parameters are zeros.
jit::GraphModule model_of(const std::string& lines) {
  jit::Graph graph = jit::parse("lathe graph 1\n" + lines);
  StateDict state;
  for (const jit::Value& value : graph.values) {
    if (value.origin != jit::Origin::kParameter) continue;
    Shape shape;
    for (const jit::Size& size : value.type.shape) shape.push_back(size.fixed);
    state.add(value.name, zeros(shape));
  }
  graph.bind(state);
  return jit::GraphModule(graph);
}

std::vector<std::string> names_of(const StateDict& state) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : state) names.push_back(name);
  return names;
}

}  // namespace

TEST_CASE("graph model: a checkpoint has the constants that the graph's text does not hold") {
  const TemporaryFolder folder;
  const auto model = cli::open_graph_model(file_of(folder, "%1: f32[N,2] = relu(%0)\n"), {});
  const StateDict state = model->state_dict();
  CHECK(names_of(state) == std::vector<std::string>{"w", "constants.0", "constants.1"});
  CHECK(std::isnan(state.at("constants.1").item<float>()));
  const auto again = cli::carried_graph_model(cli::graph_text(*model), state, {}, "a.safetensors");
  const StateDict read = again->state_dict();
  CHECK(names_of(read) == names_of(state));
  CHECK(read.at("constants.0").to_vector<float>() == std::vector<float>{0.5f, 2.f});
}

TEST_CASE("graph model: the names of constants do not depend on other values") {
  const TemporaryFolder folder;
  const auto model = cli::open_graph_model(
      file_of(folder, "%5: f32[N,2] = tanh(%0)\n%1: f32[N,2] = mul(%5, @one)\n"), {});
  CHECK(names_of(model->state_dict()) ==
        std::vector<std::string>{"w", "constants.0", "constants.1"});
}

TEST_CASE("graph model: what is only added or multiplied may be no weight") {
  const jit::GraphModule model = model_of(
      "input %x: f32[N,3]\n"
      "param @fc.weight: f32[2,3]\n"
      "param @fc.bias: f32[2]\n"
      "param @mask: f32[1,2]\n"
      "param @frozen: f32[2]\n"
      "param @both: f32[2,3]\n"
      "%0: f32[N,2] = linear(%x, @fc.weight, none)\n"
      "%1: f32[N,2] = add(%0, @fc.bias)\n"
      "%2: f32[2] = reshape(@mask, shape=[2])\n"
      "%3: f32[N,2] = mul(%1, %2)\n"
      "%4: f32[N,2] = add(%3, @frozen)\n"
      "%5: f32[N,3] = add(%x, %x)\n"
      "%6: f32[N,2] = linear(%5, @both, none)\n"
      "%7: f32[N,2] = add(%4, %6)\n"
      "output %7\n");
  for (const auto& [name, parameter] : model.named_parameters()) {
    if (name == "frozen") parameter.requires_grad_(false);
  }
  CHECK(cli::doubtful_weights(model) == std::vector<std::string>{"mask f32[1,2]"});
}

TEST_CASE("tune: flags that mean the last layer are refused where it is no module") {
  const char* const head = "param @onnx__MatMul_7: f32[3,2]\nparam @head.bias: f32[2]\n";
  jit::GraphModule model = model_of(std::string("input %x: f32[N,3]\n") + head +
                                    "%0: f32[N,2] = matmul(%x, @onnx__MatMul_7)\n"
                                    "%1: f32[N,2] = add(%0, @head.bias)\n"
                                    "output %1\n");
  Settings backbone, rate, other;
  backbone.freeze = "backbone";
  rate.head_lr = 0.1;
  other.freeze = "head";
  for (Settings* const settings : {&backbone, &rate, &other}) settings->model = "m.onnx";
  for (const Settings& settings : {backbone, rate}) {
    CHECK_THROWS_WITH_AS(cli::tune(model, settings),
                         doctest::Contains("that of m.onnx are onnx__MatMul_7 and head.bias"),
                         UsageError);
  }
  CHECK(cli::tune(model, other).frozen.parameters == 1);
}
