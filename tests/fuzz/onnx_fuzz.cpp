// ONNX files. What is accepted is a graph whose text is read again alike.
#include <stdexcept>

#include "lathe/graph/graph.h"
#include "lathe/graph/onnx/onnx.h"
#include "lathe/tests/fuzz/allocation_watch.h"
#include "lathe/tests/fuzz/target.h"
#include "lathe/tests/graph/onnx_files.h"

namespace lathe::fuzz {
namespace {

using testing::onnx_int;
using testing::onnx_ints;
using testing::onnx_real;
using testing::OnnxText;

std::vector<std::string> seeds() {
  OnnxText layers;
  layers.input("x", {"batch", "1", "4", "4"}).reals("w", {1, 1, 1, 1}, {2});
  layers.node("Conv", {"x", "w"}, {"a"}, {onnx_ints("pads", {0, 0, 1, 1}), onnx_int("group", 1)});
  layers.node("MaxPool", {"a"}, {"b"}, {onnx_ints("kernel_shape", {2, 2})});
  layers.node("Clip", {"b"}, {"c"}).node("Softmax", {"c"}, {"y"}, {onnx_int("axis", -1)});
  layers.output("y");
  OnnxText both;
  both.input("x", {"n", "2", "3"}).integers("zero", {0}, true).integers("axes", {0});
  both.integers("rest", {-1}).node("Shape", {"x"}, {"s"}).node("Gather", {"s", "zero"}, {"n"});
  both.node("Unsqueeze", {"n", "axes"}, {"one"});
  both.node("Concat", {"one", "rest"}, {"to"}, {onnx_int("axis", 0)});
  both.node("Reshape", {"x", "to"}, {"flat"}).reals("w", {2, 6}, std::vector<float>(12, 0.5f));
  both.node("Gemm", {"flat", "w"}, {"g"}, {onnx_int("transB", 1), onnx_real("alpha", 0.5f)});
  both.node("Split", {"g"}, {"h", "i"}, {onnx_int("axis", 1)}).node("Add", {"h", "i"}, {"y"});
  both.output("y");
  OnnxText old(7);
  old.input("x", {"2", "3"}).node("Clip", {"x"}, {"a"}, {onnx_real("min", 0), onnx_real("max", 6)});
  old.node("Slice", {"a"}, {"b"}, {onnx_ints("starts", {1}), onnx_ints("ends", {9})});
  old.node("ReduceMean", {"b"}, {"y"}, {onnx_ints("axes", {1}), onnx_int("keepdims", 0)});
  old.output("y");
  OnnxText integers(21);
  integers.input("x", {"batch", "2", "4", "4"}).reals("s", {}, {0.5f}).reals("k", {2}, {0.5f, 2});
  integers.node("QuantizeLinear", {"x", "s"}, {"q"}, {onnx_int("output_dtype", 3)});
  integers.node("DequantizeLinear", {"q", "s"}, {"a"}, {onnx_int("axis", 1)});
  integers.node("QuantizeLinear", {"a", "k"}, {"b"}, {onnx_int("axis", 1)});
  integers.node("DequantizeLinear", {"b", "k"}, {"y"}, {onnx_int("axis", 1)}).output("y");
  OnnxText modes;
  modes.input("x", {"n", "2"}).reals("a.w", {2}, {1, 2}).reals("a.b", {2}, {3, 4});
  modes.reals("a.m", {2}, {0, 0}).reals("a.v", {2}, {1, 1}).reals("p", {}, {0.5f});
  modes.node("BatchNormalization", {"x", "a.w", "a.b", "a.m", "a.v"}, {"y"},
             {onnx_real("momentum", 0.9f)});
  modes.node("Dropout", {"y", "p"}, {"z"}).output("z");
  return {layers.file(), both.file(), old.file(), integers.file(), modes.file()};
}

void feed(const std::string& bytes) {
  constexpr int64_t kLargest = 64;  // of 4: 256 times the file, as onnx.h says
  try {                             // what is no graph for inference may be a model
    check_allocations(2 * kLargest * static_cast<int64_t>(bytes.size()),  // and modules of names
                      [&] { jit::load_onnx_module(bytes, "fuzz.onnx"); });
  } catch (const Error&) {
  }
  check_allocations(kLargest * static_cast<int64_t>(bytes.size()), [&] {
    const jit::Graph graph = jit::load_onnx(bytes, "fuzz.onnx").graph;
    const std::string text = graph.text();
    if (jit::parse(text).text() != text) {
      throw std::logic_error("what was read is not what was printed");
    }
  });
}

const Target target("onnx", seeds, feed);

}  // namespace
}  // namespace lathe::fuzz
