// What a graph from a file may ask for, and that nodes whose results nobody needs do not run.
#include <doctest/doctest.h>

#include <string>

#include "lathe/core/format.h"
#include "lathe/graph/file.h"
#include "lathe/graph/onnx/onnx.h"
#include "lathe/graph/passes.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/isclose.h"
#include "lathe/tests/data/files.h"
#include "lathe/tests/graph/onnx_files.h"

using namespace lathe;
using data::testing::message_of;
using testing::onnx_int;
using testing::OnnxText;

namespace {

constexpr int64_t kHuge = int64_t{1} << 40;

jit::Graph read(const OnnxText& text) { return jit::load_onnx(text.file(), "m.onnx").graph; }
std::string error_of(const OnnxText& text) {
  return message_of<DataError>([&] { read(text); });
}

/// What jit::load() says of the file of a text whose tensors are zeros; "" if it reads it.
std::string load_error(const std::string& text) {
  const data::testing::TempDir directory;
  jit::Graph graph = jit::parse(text);
  StateDict state;
  for (const jit::Value& value : graph.values) {
    if (value.origin != jit::Origin::kParameter) continue;
    Shape shape;
    for (const jit::Size& size : value.type.shape) shape.push_back(size.fixed);
    state.add(value.name, zeros(shape, {.dtype = value.type.dtype}));
  }
  graph.bind(state);
  jit::save(graph, directory / "g.lathe");
  try {
    jit::load(directory / "g.lathe");
  } catch (const DataError& e) {
    return e.message();
  }
  return "";
}

}  // namespace

TEST_CASE("graph: nodes that no output needs do not run") {
  // %1 and %3 would throw; %3 stands in the middle of a group.
  jit::Graph graph = jit::parse(
      "lathe graph 1\ninput %x: f32[N,20000]\n"
      "%0: f32[N,20000] = relu(%x) {1}\n"
      "%1: f32[3] = reshape(%x, shape=[3])\n"
      "%2: f32[N,20000] = add(%0, %x) {2}\n"
      "%3: f32[N,20000] = logical_not(%2) {2}\n"
      "%4: f32[N,20000] = neg(%2) {2}\n"
      "output %4\n");
  const Tensor x = full({2, 20000}, 3.0);
  CHECK(equal(graph(x), full({2, 20000}, -6.0)));

  jit::Graph folded = jit::parse(
      "lathe graph 1\ninput %x: f32[2]\nconst @c: f32[] = 1.5\n"
      "%0: f32[3] = reshape(@c, shape=[3])\n%1: f32[2] = add(%x, @c)\noutput %1\n");
  jit::fold_constants(folded);
  jit::optimize_for_inference(folded);
  CHECK(equal(folded(ones({2})), full({2}, 2.5)));
}

TEST_CASE("onnx import: a small file cannot ask for huge results or endless sums") {
  OnnxText sum;
  sum.input("x", {"1"}).integers("to", {kHuge}).node("ConstantOfShape", {"to"}, {"c"});
  sum.node("ReduceSum", {"c"}, {"s"}).node("Add", {"x", "s"}, {"y"}).output("y");
  CHECK(error_of(sum) ==
        "m.onnx: for a batch of one the graph asks for 1099511627778 numbers in results, most of "
        "them for %0 = expand of the ConstantOfShape, f32[1099511627776]; a graph of 4 bytes of "
        "tensors and 1 numbers of inputs may ask for 2^28 + 1024 * (bytes + numbers) = 268440576");

  // The same where no output needs it.
  OnnxText dead;
  dead.input("x", {"1"}).integers("to", {kHuge}).node("ConstantOfShape", {"to"}, {"c"});
  dead.node("ReduceSum", {"c"}, {"s"}).node("Relu", {"x"}, {"y"}).output("y");
  const jit::Graph graph = read(dead);
  CHECK(graph.nodes.size() == 1);
  CHECK(equal(graph(ones({1})), ones({1})));

  // No result is large, but the product of two is 2^39 multiplications.
  OnnxText product;
  product.input("x", {"1"}).integers("to", {8192, 8192});
  product.node("Expand", {"x", "to"}, {"c"}).node("MatMul", {"c", "c"}, {"y"}).output("y");
  const std::string steps = error_of(product);
  CHECK(steps.find("steps of arithmetic, most of them for %1 = matmul of the MatMul, "
                   "f32[8192,8192]") != std::string::npos);

  // Sums over a result again and again.
  OnnxText again;
  again.input("x", {"1"}).integers("to", {1 << 20});
  again.node("Expand", {"x", "to"}, {"c0"});
  for (int i = 0; i < 300; ++i) {
    again.node("Neg", {concat("c", i)}, {concat("c", i + 1)});
  }
  CHECK(error_of(again.output("c300")).find("numbers in results") != std::string::npos);
}

TEST_CASE("graph files: a type smaller than what its op makes does not hide the work") {
  const std::string head =
      "lathe graph 1\ninput %x: f32[1,1,4,4]\nparam @w: f32[1,1,1,1]\nparam @i: i64[1]\n"
      "param @m: f32[1,1]\n%c: f32[1,1,4096,4096] = expand(%x, shape=[1,1,4096,4096])\n"
      "%r: f32[4194304,1] = expand(@m, shape=[4194304,1])\n"
      "%l: f32[1,4194304] = expand(@m, shape=[1,4194304])\n"
      "%j: i64[4194304] = expand(@i, shape=[4194304])\n";
  const std::string size = concat(kHuge);
  const std::string taps = "stride=[1,1], dilation=[1,1], groups=1";
  const std::string lines[] = {
      "pad(%x, amounts=[0," + size + "], value=0)",
      "pad(%x, amounts=[1,1,0," + size + "], mode=\"replicate\")",
      "upsample(%x, size=[0,0], scale_rows=1000000.0, scale_columns=1000000.0, "
      "mode=\"nearest\", align_corners=false)",
      "upsample(%x, size=[1000000,1000000], scale_rows=0.0, scale_columns=0.0, "
      "mode=\"nearest\", align_corners=false)",
      "adaptive_avg_pool2d(%x, size=[1000000,1000000])",
      "conv2d(%x, @w, none, stride=[1,1], pad=[1000000,1000000], dilation=[1,1], groups=1)",
      "conv_transpose2d(%x, @w, none, stride=[1000000,1000000], pad=[0,0], output_pad=[0,0], "
      "dilation=[1,1], groups=1)",
      "add(%l, %r)",
      "matmul(%r, %l)",
      "linear(%r, %r, none)",
      "scaled_dot_product_attention(%r, %r, %r, none, causal=false, scale=1.0, grouped=false)",
      "cat(%c, %c, %c, %c, %c, %c, %c, %c, %c, %c, %c, %c, %c, %c, %c, %c, dim=0)",
      "index_select(%c, %j, dim=1)",
      "embedding(%l, %j, padding_index=\"none\")",
  };
  for (const std::string& line : lines) {
    INFO(line);
    const std::string what = load_error(head + "%y: f32[1] = " + line + "\noutput %y\n");
    CHECK(what.find("the graph asks for") != std::string::npos);
    CHECK(what.find("%y = ") != std::string::npos);
  }
  CHECK(load_error(head + "%y: f32[1,1,4096,4096] = relu(%c)\noutput %y\n").empty());
}
