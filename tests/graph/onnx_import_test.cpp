// ONNX import: files of a few nodes become the graphs that they mean, and what has no counterpart
// is refused by name. onnx_nodes_test.py has onnx's own tests of the operators.
#include <doctest/doctest.h>

#include <limits>
#include <string>

#include "lathe/autograd/grad_mode.h"
#include "lathe/core/files/file.h"
#include "lathe/core/random/generator.h"
#include "lathe/graph/file.h"
#include "lathe/graph/onnx/onnx.h"
#include "lathe/graph/passes.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/isclose.h"
#include "lathe/ops/random.h"
#include "lathe/tests/cuda_case.h"
#include "lathe/tests/data/files.h"
#include "lathe/tests/graph/onnx_files.h"

using namespace lathe;
using data::testing::message_of;
using testing::onnx_attribute;
using testing::onnx_int;
using testing::onnx_ints;
using testing::onnx_real;
using testing::onnx_word;
using testing::OnnxText;

namespace {

/// A residual block and a classifier behind it.
OnnxText residual() {
  OnnxText text;
  text.input("images", {"batch", "2", "8", "8"});
  text.reals("conv:w", {2, 2, 3, 3}, std::vector<float>(36, 0.25f)).reals("b", {2}, {1, -1});
  text.reals("fc.w", {3, 2}, {1, 2, 3, 4, 5, 6}).reals("fc.b", {3}, {0, 0, 1});
  text.node("Conv", {"images", "conv:w", "b"}, {"a"},
            {onnx_ints("pads", {1, 1, 1, 1}), onnx_ints("kernel_shape", {3, 3})});
  text.node("Add", {"a", "images"}, {"sum"}).node("Relu", {"sum"}, {"r"});
  text.node("GlobalAveragePool", {"r"}, {"p"}).node("Flatten", {"p"}, {"f"});
  text.node("Gemm", {"f", "fc.w", "fc.b"}, {"scores"}, {onnx_int("transB", 1)}).output("scores");
  return text;
}

jit::Graph read(const OnnxText& text) { return jit::load_onnx(text.file(), "m.onnx").graph; }
std::string text_of(const OnnxText& text) { return read(text).text(); }
std::string error_of(const std::string& bytes) {
  return message_of<DataError>([&] { jit::load_onnx(bytes, "m.onnx"); });
}
std::string error_of(const OnnxText& text) { return error_of(text.file()); }

/// A file with one node: its first input is x, its result is the file's.
OnnxText one_node(const std::string& op, const std::vector<std::string>& sizes,
                  const std::vector<std::string>& more = {},
                  const std::vector<ProtobufMessage>& attributes = {}, int64_t opset = 17) {
  std::vector<std::string> inputs = {"x"};
  inputs.insert(inputs.end(), more.begin(), more.end());
  OnnxText text(opset);
  text.input("x", sizes).node(op, inputs, {"y"}, attributes).output("y");
  return text;
}

}  // namespace

TEST_CASE("onnx import: a residual block, for any batch") {
  const OnnxText text = residual();
  const jit::Graph graph = read(text);
  CHECK(graph.text() ==
        "lathe graph 1\n"
        "input %images: f32[N,2,8,8]\n"
        "param @conv_w: f32[2,2,3,3]\n"
        "param @b: f32[2]\n"
        "param @fc.w: f32[3,2]\n"
        "param @fc.b: f32[3]\n"
        "%0: f32[N,2,8,8] = conv2d(%images, @conv_w, @b, stride=[1,1], pad=[1,1], "
        "dilation=[1,1], groups=1)  # the Conv\n"
        "%1: f32[N,2,8,8] = add(%0, %images)  # the Add\n"
        "%2: f32[N,2,8,8] = relu(%1)  # the Relu\n"
        "%3: f32[N,2,1,1] = adaptive_avg_pool2d(%2, size=[1,1])  # the GlobalAveragePool\n"
        "%4: f32[N,2] = flatten(%3, first=1, last=-1)  # the Flatten\n"
        "%5: f32[N,3] = linear(%4, @fc.w, @fc.b)  # the Gemm\n"
        "output %5\n");
  const NoGrad off;
  manual_seed(3);
  const Tensor x = randn({3, 2, 8, 8});
  const data::testing::TempDir directory;
  const std::string path = directory / "m.lathe";
  jit::save(graph, path);
  CHECK(equal(jit::load(path)(x), graph(x)));
  CHECK(graph(x).shape() == Shape{3, 3});
  write_file_atomic(directory / "m.onnx", text.file());
  CHECK(jit::load_onnx(directory / "m.onnx").graph.text() == graph.text());
}

TEST_CASE("onnx import: the graph gives the CPU's numbers on a GPU" * test::cuda_case()) {
  const NoGrad off;
  manual_seed(4);
  const Tensor x = randn({3, 2, 8, 8});
  jit::Graph graph = read(residual());
  const Tensor want = graph(x);
  const Device gpu(DeviceType::kCUDA);
  graph.to(gpu);
  CHECK(allclose(graph(x.to(gpu)).to(kCPU), want, {.rtol = 1e-5, .atol = 1e-5}));
}

TEST_CASE("onnx import: QuantizeLinear without a zero point has the type that it names") {
  const auto text = [](int64_t type) {
    OnnxText file =
        one_node("QuantizeLinear", {"3"}, {"scale"}, {onnx_int("output_dtype", type)}, 21);
    return file.reals("scale", {}, {0.5F});
  };
  CHECK(text_of(text(3)).find("quantize(%x, scale=0.5, dtype=\"i8\")") != std::string::npos);
  CHECK(text_of(text(2)).find("dtype=\"u8\"") != std::string::npos);
  CHECK(text_of(text(0)).find("dtype=\"u8\"") != std::string::npos);
  CHECK(error_of(text(5)).find("only u8 and i8 have a counterpart") != std::string::npos);
}

TEST_CASE("onnx import: the axis of a scale that is one number says nothing") {
  OnnxText q = one_node("QuantizeLinear", {"3"}, {"scale"}, {onnx_int("axis", 0)}, 21);
  CHECK(text_of(q.reals("scale", {}, {0.5F})).find("quantize(%x, scale=0.5") != std::string::npos);
  // A bias of one channel, in 32 bits.
  OnnxText bias(21);
  bias.input("x", {"1"}, 6).reals("scale", {1}, {0.5F});
  bias.node("DequantizeLinear", {"x", "scale"}, {"y"}, {onnx_int("axis", 0)}).output("y");
  CHECK(text_of(bias).find("= mul(") != std::string::npos);
}

TEST_CASE("onnx import: what depends on shapes alone becomes arguments") {
  OnnxText text;
  text.input("x", {"n", "3", "4"}).integers("zero", {0}, true).integers("axis", {0});
  text.integers("rest", {2, -1}).node("Shape", {"x"}, {"s"}).node("Gather", {"s", "zero"}, {"n"});
  text.node("Mul", {"n", "two"}, {"twice"}).integers("two", {2}, true);
  text.node("Unsqueeze", {"twice", "axis"}, {"one"});
  text.node("Concat", {"one", "rest"}, {"to"}, {onnx_int("axis", 0)});
  text.node("Reshape", {"x", "to"}, {"y"}).output("y");
  CHECK(text_of(text) ==
        "lathe graph 1\n"
        "input %x: f32[N,3,4]\n"
        "%0: f32[2*N,2,3] = reshape(%x, shape=[2*N,2,3])  # the Reshape\n"
        "output %0\n");

  // As PyTorch writes x.expand(n, -1): where(shape == -1, 1, shape).
  OnnxText expand;
  expand.input("x", {"n", "4"}).reals("token", {1, 4}, {1, 2, 3, 4}).integers("minus", {-1});
  expand.integers("zero", {0}, true).integers("axis", {0}).integers("length", {2});
  expand.node("Shape", {"x"}, {"s"}).node("Gather", {"s", "zero"}, {"n"});
  expand.node("Unsqueeze", {"n", "axis"}, {"one"});
  expand.node("Concat", {"one", "minus"}, {"want"}, {onnx_int("axis", 0)});
  expand.node("ConstantOfShape", {"length"}, {"ones"}, {[] {
                ProtobufMessage t, a = onnx_attribute("value", 4);
                t.add_int(1, 1);
                t.add_int(2, 7);
                t.add_int(7, 1);
                a.add_message(5, t);
                return a;
              }()});
  expand.node("Mul", {"ones", "minus"}, {"minuses"}).node("Equal", {"want", "minuses"}, {"which"});
  expand.node("Where", {"which", "ones", "want"}, {"to"});
  expand.node("Expand", {"token", "to"}, {"tokens"}).node("Add", {"x", "tokens"}, {"y"});
  expand.output("y");
  const jit::Graph graph = read(expand);
  CHECK(graph.nodes.size() == 2);
  CHECK(equal(graph(ones({2, 4})), tensor({{2.0f, 3.0f, 4.0f, 5.0f}, {2.0f, 3.0f, 4.0f, 5.0f}})));
}

TEST_CASE("onnx import: the same operator in its older forms") {
  const auto last = [](const OnnxText& text) {
    const std::string all = text_of(text);
    const size_t begin = all.rfind("%", all.rfind(" = "));
    return all.substr(begin, all.find('\n', begin) - begin);
  };
  CHECK(last(one_node("Clip", {"2"}, {}, {onnx_real("min", 0), onnx_real("max", 6)}, 7)) ==
        "%0: f32[2] = relu6(%x)  # the Clip");
  CHECK(last(one_node("Clip", {"2"}, {"low"}).reals("low", {}, {0.5f})) ==
        "%0: f32[2] = clamp(%x, low=0.5, high=inf)  # the Clip");
  CHECK(last(one_node("Unsqueeze", {"2"}, {}, {onnx_ints("axes", {0})}, 12)) ==
        last(one_node("Unsqueeze", {"2"}, {"axes"}).integers("axes", {0})));
  CHECK(last(one_node("Slice", {"9"}, {}, {onnx_ints("starts", {-3}), onnx_ints("ends", {99})},
                      9)) == "%0: f32[3] = slice(%x, dim=0, start=6, stop=9, step=1)  # the Slice");
  CHECK(last(one_node("ReduceMean", {"n", "3"}, {"axes"}, {}, 18).integers("axes", {-1})) ==
        "%0: f32[N,1] = mean(%x, dims=[1], keepdim=true)  # the ReduceMean");
  CHECK(last(one_node("MaxPool", {"1", "1", "5", "5"}, {},
                      {onnx_ints("kernel_shape", {2, 2}), onnx_ints("strides", {2, 2}),
                       onnx_word("auto_pad", "SAME_UPPER")})) ==
        "%1: f32[1,1,3,3] = max_pool2d(%0, kernel=[2,2], stride=[2,2], pad=[0,0], dilation=[1,1], "
        "ceil_mode=false)  # the MaxPool");
}

TEST_CASE("onnx import: what has no counterpart is refused with node, operator and opset") {
  CHECK(error_of(one_node("Einsum", {"2"})) ==
        "m.onnx: node \"the Einsum\" (Einsum, opset 17): this operator has no counterpart here");
  CHECK(error_of(one_node("Relu", {"2"}, {}, {onnx_int("speed", 1)})) ==
        "m.onnx: node \"the Relu\" (Relu, opset 17): attribute \"speed\" has no counterpart here");
  CHECK(error_of(one_node("Conv", {"n", "1", "4", "4"}, {"w"})
                     .reals("w", {1, 1, 9, 9}, std::vector<float>(81)))
            .find("its window does not fit into f32[N,1,4,4]") != std::string::npos);
  CHECK(error_of(one_node("Relu", {"n", "height"})).find("size 1 (\"height\") has no number") !=
        std::string::npos);
  CHECK(error_of(one_node("Add", {"2", "3"}, {"w"}).reals("w", {2}, {1, 2}))
            .find("shapes [2,3] and [2] do not broadcast") != std::string::npos);
  CHECK(error_of(one_node("Add", {"2"}, {"nothing"}))
            .find("\"nothing\" is the result of no earlier node") != std::string::npos);
  CHECK(error_of(one_node("Reshape", {"n", "3"}, {"to"}).integers("to", {2, -1}))
            .find("3*N divided by 2 is no multiple of the batch") != std::string::npos);
  CHECK(error_of(one_node("Split", {"5"}, {"parts"}).integers("parts", {2})).find("add up to 5") !=
        std::string::npos);
  const std::vector<std::vector<int64_t>> orders = {{5, 0}, {0}, {0, 0}, {-1, 0}};
  for (const std::vector<int64_t>& order : orders) {
    CHECK(error_of(one_node("Transpose", {"2", "3"}, {}, {onnx_ints("perm", order)}))
              .find("perm must name each dimension of f32[2,3] once") != std::string::npos);
  }
  CHECK(error_of(one_node("Pad", {"2"}, {"pads", "", "axes"}, {}, 18)
                     .integers("pads", {1, 1})
                     .integers("axes", {}))
            .find("its axes must name a dimension") != std::string::npos);
  CHECK(error_of(OnnxText(6)) == "m.onnx: opset 6 is before 7");
  CHECK(error_of("") == "m.onnx: there is no ONNX graph in this file");
  CHECK_THROWS_AS(jit::load_onnx("/nowhere/m.onnx"), FileError);
}

TEST_CASE("onnx import: hostile sizes and tensors in other files are refused") {
  const auto with = [](const std::function<void(ProtobufMessage&)>& fill) {
    ProtobufMessage t;
    fill(t);
    t.add_text(8, "w");
    return error_of(one_node("Add", {"1"}, {"w"}).field(5, t));
  };
  CHECK(with([](auto& t) {
          t.add_int(1, 2), t.add_int(2, 1), t.add_int(14, 1);
        }).find("are in another file (\"external data\")") != std::string::npos);
  CHECK(with([](auto& t) {
          t.add_int(1, int64_t{1} << 40), t.add_int(2, 1), t.add_text(9, "1234");
        }).find("it has 1 values of its type, f32[1099511627776] needs") != std::string::npos);
  CHECK(with([](auto& t) {
          for (int i = 0; i < 3; ++i) t.add_int(1, int64_t{1} << 40);
          t.add_int(2, 1);
        }).find("m.onnx: tensor \"w\" at byte") != std::string::npos);
  CHECK(with([](auto& t) { t.add_int(1, -1), t.add_int(2, 1); }).find("a negative size: -1") !=
        std::string::npos);
  CHECK(with([](auto& t) { t.add_int(2, 8); }).find("type 8 of onnx.TensorProto has no dtype") !=
        std::string::npos);

  const int64_t large = int64_t{1} << 40;  // of one dimension: work_test.cpp
  CHECK(error_of(one_node("Expand", {"1"}, {"to"}).integers("to", {large, large}))
            .find("a result cannot be f32[1099511627776,1099511627776]") != std::string::npos);
  // Each Concat doubles the list.
  OnnxText doubled;
  doubled.input("x", {"1"}).integers("l0", {1});
  for (int i = 0; i < 30; ++i) {
    const std::string from = concat("l", i);
    doubled.node("Concat", {from, from}, {concat("l", i + 1)}, {onnx_int("axis", 0)});
  }
  doubled.node("Expand", {"x", "l30"}, {"y"}).output("y");
  CHECK(error_of(doubled).find("must not depend on the values of other tensors") !=
        std::string::npos);
}

TEST_CASE("onnx import: operators whose ops are called in another way") {
  const auto run = [](const OnnxText& text, const Tensor& x) { return read(text)(x); };
  const float inf = std::numeric_limits<float>::infinity();
  const Tensor x = tensor({{-2.0f, 0.0f, 3.0f}});
  const std::vector<std::string> sizes = {"1", "3"};
  CHECK(equal(run(one_node("PRelu", sizes, {"s"}).reals("s", {3}, {0.5f, 1, 2}), x),
              tensor({{-1.0f, 0.0f, 3.0f}})));
  CHECK(allclose(run(one_node("HardSigmoid", sizes), x), tensor({{0.1f, 0.5f, 1.0f}})));
  CHECK(
      equal(run(one_node("Gather", sizes, {"i"}, {onnx_int("axis", 1)}).integers("i", {-1, 0}), x),
            tensor({{3.0f, -2.0f}})));
  CHECK(equal(run(one_node("Clip", sizes, {"", "high"}).reals("high", {}, {1}), x),
              tensor({{-2.0f, 0.0f, 1.0f}})));
  CHECK(equal(run(one_node("Gemm", sizes, {"w", "b"}, {onnx_real("alpha", 2), onnx_real("beta", 3)})
                      .reals("w", {3, 1}, {1, 1, 1})
                      .reals("b", {1}, {10}),
                  x),
              tensor({{32.0f}})));
  CHECK(equal(run(one_node("Pad", sizes, {"pads"}).integers("pads", {0, 1, 0, 0}), x),
              tensor({{0.0f, -2.0f, 0.0f, 3.0f}})));
  CHECK(equal(run(one_node("ReduceL1", sizes), x), tensor({{5.0f}})));
  CHECK(equal(run(one_node("IsInf", {"2"}), tensor({-inf, 1.0f})), tensor({true, false})));
}

TEST_CASE("onnx import: integers of a shape wrap to the dtype of a cast") {
  // 300 as u8 is 44; 200 + 96 is 40.
  constexpr int64_t kU8Number = 2, kI64Number = 7, kBoolNumber = 9;
  const auto size_of = [&](const std::vector<int64_t>& types, int64_t value) {
    OnnxText text;
    text.input("x", {"1"}).integers("v0", {value});
    for (size_t i = 0; i < types.size(); ++i) {
      text.node("Cast", {concat("v", i)}, {concat("v", i + 1)}, {onnx_int("to", types[i])});
    }
    text.node("Expand", {"x", concat("v", types.size())}, {"y"}).output("y");
    return read(text)(ones({1})).numel();
  };
  CHECK(size_of({kU8Number, kI64Number}, 300) == 44);
  CHECK(size_of({kBoolNumber, kI64Number}, 300) == 1);
  CHECK(size_of({6, kI64Number}, (int64_t{1} << 32) + 5) == 5);

  OnnxText sum;
  sum.input("x", {"1"}).integers("a", {200}).integers("b", {96});
  sum.node("Cast", {"a"}, {"c"}, {onnx_int("to", kU8Number)});
  sum.node("Cast", {"b"}, {"d"}, {onnx_int("to", kU8Number)});
  sum.node("Add", {"c", "d"}, {"e"}).node("Cast", {"e"}, {"f"}, {onnx_int("to", kI64Number)});
  sum.node("Expand", {"x", "f"}, {"y"}).output("y");
  CHECK(read(sum)(ones({1})).numel() == 40);

  OnnxText batch;
  batch.input("x", {"n"}).node("Shape", {"x"}, {"s"});
  batch.node("Cast", {"s"}, {"t"}, {onnx_int("to", kU8Number)}).output("t");
  CHECK(error_of(batch).find("a multiple of the batch may not fit into u8") != std::string::npos);
}

TEST_CASE("onnx import: a part of Split without a name is no node") {
  OnnxText text;
  text.input("x", {"N", "3"})
      .node("Split", {"x"}, {"", "y", ""}, {onnx_int("axis", 1)})
      .output("y");
  const jit::Graph graph = read(text);
  REQUIRE(graph.nodes.size() == 1);
  const Tensor x = randn({2, 3});
  CHECK(equal(graph(x), x.narrow(1, 1, 1)));
}
