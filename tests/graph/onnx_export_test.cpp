// ONNX export: what is written is read again as a graph of the same numbers: models, blocks of
// them, and every op. onnx_python_test.py has onnx check and onnxruntime run the files.
#include <doctest/doctest.h>

#include <ctime>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "lathe/autograd/grad_mode.h"
#include "lathe/core/random/generator.h"
#include "lathe/graph/onnx/onnx.h"
#include "lathe/graph/op_table.h"
#include "lathe/graph/passes.h"
#include "lathe/graph/trace.h"
#include "lathe/nn/models.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/isclose.h"
#include "lathe/ops/random.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/where.h"
#include "lathe/tests/data/files.h"
#include "lathe/tests/graph/every_op.h"

using namespace lathe;
using data::testing::message_of;

namespace {

/// Written and read again.
jit::OnnxModel returned(const jit::Graph& graph, const jit::OnnxOptions& options = {}) {
  const data::testing::TempDir directory;
  jit::save_onnx(graph, directory / "m.onnx", options);
  CHECK(jit::is_saved_onnx(directory / "m.onnx"));
  return jit::load_onnx(directory / "m.onnx");
}

/// The largest difference, relative to the largest number.
double difference(const Tensor& got, const Tensor& want) {
  return (got - want).abs().max().item<double>() / want.abs().max().item<double>();
}

}  // namespace

TEST_CASE("onnx export: a model comes back as the graph of its numbers, for any batch") {
  const NoGrad off;
  for (const char* const name : {"resnet8", "resnet18", "mobilenet_v2", "efficientnet_b0"}) {
    CAPTURE(name);
    manual_seed(1);
    const auto model = nn::make_model(name, {.classes = 7, .image_size = 32});
    model->eval();
    const jit::OnnxModel read =
        returned(jit::trace(*model, randn({2, 3, 32, 32})), {.metadata = {{"a", "1"}, {"b", ""}}});
    const Tensor x = randn({3, 3, 32, 32});
    CHECK(difference(read.graph(x), (*model)(x)) <= 1e-5);
    CHECK(read.metadata.at("a") == "1");
    CHECK(read.metadata.size() == 2);
    for (const auto& [key, t] : model->state_dict()) {  // under the names of the state dict
      if (key.ends_with("num_batches_tracked")) continue;
      CHECK(equal(read.graph.state().at(key), t));
    }
  }
}

TEST_CASE("onnx export: blocks of the larger models") {
  const NoGrad off;
  manual_seed(7);
  const auto check = [](nn::Module& module, const Shape& shape) {
    module.eval();
    for (auto& [name, t] : module.named_parameters()) {
      if (name.ends_with("head.weight")) t.normal_(0, 0.1);  // zero in a new one
    }
    const jit::Graph read = returned(jit::trace(module, randn(shape))).graph;
    Shape larger = shape;
    larger[0] = 3;
    const Tensor x = randn(larger);
    CHECK(difference(read(x), module(x)) <= 1e-5);
  };
  nn::ConvNeXtBlock next(8, 0.5, 0.2);
  check(next, {2, 8, 9, 9});
  nn::VisionTransformer vit({.patch_size = 8, .layers = 2, .heads = 2, .hidden = 16, .mlp = 32},
                            {.classes = 5, .image_size = 16});
  check(vit, {2, 3, 16, 16});
}

TEST_CASE("onnx export: every op, alone and with what it needs") {
  const NoGrad off;
  const jit::Graph all = jit::parse(testing::every_op_text(true));
  const Tensors inputs = testing::every_op_inputs(), want = all.run(inputs);
  // upsample's Resize is not read, losses are no part of a model that runs, and ONNX 17 has neither
  // gamma functions nor operations on bits.
  const std::set<std::string> without = {"atan2",  "upsample", "cross_entropy", "nll_loss",
                                         "lgamma", "digamma",  "erfinv",        "polygamma"};
  for (size_t i = 0; i < all.outputs.size(); ++i) {
    jit::Graph one = all;
    one.outputs = {all.outputs[i]};
    jit::remove_dead_code(one);
    const std::string op = one.nodes.back().op->name;
    CAPTURE(op);
    if (without.contains(op) || op.ends_with("_grad") || op.starts_with("bitwise_")) continue;
    const Tensor got = returned(one).graph.run(inputs)[0];
    CHECK(got.dtype() == want[i].dtype());
    CHECK(
        allclose(got.to(kF64), want[i].to(kF64), {.rtol = 1e-5, .atol = 1e-6, .equal_nan = true}));
  }
}

TEST_CASE("onnx export: rounded quotients, remainders and infinities keep their values") {
  const NoGrad off;
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> numbers = {0.0,  -0.0, 1.0, -1.0, 0.1, 0.3, -0.7,  7.5,   -7.5,
                                       1e-3, 6.0,  3.0, -3.0, inf, 1e9, 2e300, 1e300, -5.0};
  const auto count = static_cast<int64_t>(numbers.size());
  const auto check = [&](DType dtype, const std::string& result, const std::string& call) {
    CAPTURE(call);
    const std::string type(name_of(dtype)), size = concat(count);
    const jit::Graph graph = jit::parse(
        "lathe graph 1\ninput %x: " + type + "[" + size + ",1]\ninput %y: " + type + "[" + size +
        "]\n%0: " + (result.empty() ? type : result) + "[" + size + "," +
        (call.find("%y") == std::string::npos ? "1" : size) + "] = " + call + "\noutput %0\n");
    Tensor x = tensor(numbers);
    if (!is_floating(dtype)) x = x.clamp(-100.0, 100.0);
    x = x.to(dtype);
    // Integers are not divided by 0, which ends some runtimes.
    const Tensor y = is_floating(dtype) ? x : where(eq(x, zeros_like(x)), ones_like(x), x);
    const Tensors inputs = {x.reshape({count, 1}), y};
    const Tensor got = returned(graph).graph.run(inputs)[0], want = graph.run(inputs)[0];
    CHECK(got.dtype() == want.dtype());
    CHECK(allclose(got.to(kF64), want.to(kF64), {.rtol = 0, .atol = 0, .equal_nan = true}));
  };
  for (const DType dtype : {kF16, kF32, kF64}) {
    check(dtype, "", "remainder(%x, %y)");
    check(dtype, "", "fmod(%x, %y)");
    check(dtype, "", "div(%x, %y, rounding_mode=\"floor\")");
    check(dtype, "bool", "isinf(%x)");
    check(dtype, "bool", "isfinite(%x)");
  }
  for (const DType dtype : {kI8, kI32, kI64}) {
    check(dtype, "", "remainder(%x, %y)");
    check(dtype, "", "div(%x, %y, rounding_mode=\"floor\")");
    check(dtype, "", "div(%x, %y, rounding_mode=\"trunc\")");
  }
  // The quotient of the lowest number.
  const jit::Graph lowest = jit::parse(
      "lathe graph 1\ninput %x: i32[1]\ninput %y: i32[1]\n"
      "%0: i32[1] = div(%x, %y, rounding_mode=\"floor\")\noutput %0\n");
  const Tensors inputs = {tensor({std::numeric_limits<int32_t>::min()}).to(kI32),
                          tensor({7}).to(kI32)};
  CHECK(equal(returned(lowest).graph.run(inputs)[0], tensor({-306783379}).to(kI32)));
}

TEST_CASE("onnx export: a size of 0 is no copied size") {
  const jit::Graph graph = jit::parse(
      "lathe graph 1\ninput %x: f32[N,0,3]\ninput %y: f32[4,0]\n"
      "%0: f32[3,N,0] = reshape(%x, shape=[3,N,0])\n"
      "%1: f32[0,5] = reshape(%y, shape=[0,5])\noutput %0, %1\n");
  const Tensors got = returned(graph).graph.run({zeros({2, 0, 3}), zeros({4, 0})});
  CHECK(got[0].shape() == Shape{3, 2, 0});
  CHECK(got[1].shape() == Shape{0, 5});
}

TEST_CASE("onnx export: the time for a node does not grow with the number of nodes") {
  std::string text = "lathe graph 1\ninput %x: f32[2]\n";
  constexpr int kNodes = 20000;
  for (int i = 0; i < kNodes; ++i) {
    text += concat("%", i, ": f32[2] = relu(%", i == 0 ? "x" : concat(i - 1), ")  # Net.block\n");
  }
  text += concat("output %", kNodes - 1, "\n");
  const auto begin = std::clock();
  CHECK(returned(jit::parse(text)).graph.nodes.size() == kNodes);
  // 0.3 s of processor time at -O1 (emulate). Minutes where each name is sought from "_1" on.
  CHECK(double(std::clock() - begin) / CLOCKS_PER_SEC < 10);
}

TEST_CASE("onnx export: the last window of ceil_mode is written as padding") {
  struct {
    const char *options, *result;
    Shape x;
  } const cases[] = {
      {"kernel=[3,3], stride=[2,2], pad=[0,0], dilation=[1,1]", "f32[2,1,3,4]", {2, 1, 6, 8}},
      {"kernel=[3,2], stride=[2,2], pad=[1,0], dilation=[1,1]", "f32[2,1,4,3]", {2, 1, 6, 5}},
      {"kernel=[3,3], stride=[2,2], pad=[0,0], dilation=[2,1]", "f32[2,1,2,2]", {2, 1, 6, 5}},
      {"kernel=[2,2], stride=[2,2], pad=[0,0], dilation=[1,1]", "f32[1,3,2]", {1, 5, 4}}};
  for (const auto& c : cases) {
    CAPTURE(c.options);
    const Tensor x = randn(c.x);
    const jit::Graph graph = jit::parse(
        concat("lathe graph 1\ninput %x: ", jit::to_text(jit::type_of(x)), "\n%0: ", c.result,
               " = max_pool2d(%x, ", c.options, ", ceil_mode=true)\noutput %0\n"));
    CHECK(equal(returned(graph).graph(x), graph(x)));
  }
}

TEST_CASE("onnx export: what has no form is refused by op and layer, and the old file stays") {
  const data::testing::TempDir directory;
  const std::string path = directory / "m.onnx";
  data::testing::write_file(path, "old");
  const auto error_of = [&](const std::string& call) {
    const jit::Graph graph =
        jit::parse("lathe graph 1\ninput %x: f32[2,3,4,4]\n%0: f32[2,3,2,2] = " + call +
                   "  # Net.pool\noutput %0\n");
    return message_of<ValueError>([&] { jit::save_onnx(graph, path); });
  };
  CHECK(error_of("atan2(%x, %x)") == "save_onnx: atan2 of Net.pool: it has no ONNX form");
  CHECK(error_of("avg_pool2d(%x, kernel=[3,3], stride=[2,2], pad=[0,0], ceil_mode=true, "
                 "count_include_pad=true, divisor_override=\"none\")") ==
        "save_onnx: avg_pool2d of Net.pool: with ceil_mode, runtimes disagree about the last "
        "window");
  CHECK(error_of("max_pool2d(%x, kernel=[2,2], stride=[3,3], pad=[0,0], dilation=[3,3], "
                 "ceil_mode=true)")
            .find("runtimes take less than 2") != std::string::npos);
  CHECK(error_of("pad(%x, amounts=[1,1], mode=\"circular\")").find("in opset 17") !=
        std::string::npos);
  CHECK(data::testing::read_file(path) == "old");
  CHECK_FALSE(jit::is_saved_onnx(path));
}
