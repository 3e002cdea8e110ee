// ONNX export: the file, field by field, through a protobuf reader of this test's own, and what
// must be refused. onnx_python_test.py has onnx check and onnxruntime run what we write.
#include "lathe/nn/onnx.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "lathe/core/file.h"
#include "lathe/nn/activation.h"
#include "lathe/nn/dropout.h"
#include "lathe/nn/init.h"
#include "lathe/nn/linear.h"
#include "lathe/nn/mlp.h"
#include "lathe/nn/models.h"
#include "lathe/nn/norm.h"
#include "lathe/nn/pool2d.h"
#include "lathe/tests/data/files.h"

namespace lathe {
namespace {

using data::testing::message_of;
using data::testing::TempDir;

/// A message: per field number its values in order, as numbers or texts.
struct Message {
  std::map<int, std::vector<int64_t>> numbers;
  std::map<int, std::vector<std::string>> texts;

  explicit Message(const std::string& bytes) {
    size_t at = 0;
    const auto varint = [&] {
      uint64_t value = 0;
      for (int shift = 0;; shift += 7) {
        const auto byte = static_cast<unsigned char>(bytes.at(at++));
        value |= uint64_t{byte & 0x7fu} << shift;
        if (byte < 0x80) return value;
      }
    };
    while (at < bytes.size()) {
      const uint64_t tag = varint();
      const int field = static_cast<int>(tag >> 3);
      if ((tag & 7) == 0) {
        numbers[field].push_back(static_cast<int64_t>(varint()));
      } else if ((tag & 7) == 5) {
        float value = 0;
        std::memcpy(&value, bytes.data() + at, 4);
        numbers[field].push_back(static_cast<int64_t>(value * 1e6f));
        at += 4;
      } else {
        const uint64_t size = varint();
        texts[field].push_back(bytes.substr(at, size));
        at += size;
      }
    }
  }
  std::string text(int field) const { return texts.at(field).at(0); }
};

/// "Conv(x,conv1.weight)→conv1 kernel_shape=3,3 …": a node as a line.
std::string line_of(const Message& node) {
  std::string out = node.text(4) + "(";
  for (const auto& input : node.texts.at(1)) out += (out.back() == '(' ? "" : ",") + input;
  out += ")→" + node.text(2);
  if (!node.texts.contains(5)) return out;
  for (const std::string& bytes : node.texts.at(5)) {
    const Message attribute(bytes);
    out += " " + attribute.text(1) + "=";
    for (const int field : {2, 3, 8}) {
      if (!attribute.numbers.contains(field)) continue;
      const auto& values = attribute.numbers.at(field);
      for (size_t i = 0; i < values.size(); ++i) out += concat(i == 0 ? "" : ",", values[i]);
    }
  }
  return out;
}

struct Exported {
  Message file, graph;
  std::vector<std::string> lines;
};

Exported exported(const nn::Module& model, const nn::OnnxOptions& options) {
  const TempDir dir;
  nn::save_onnx(model, dir / "x.onnx", options);
  const Message file(data::testing::read_file(dir / "x.onnx"));
  const Message graph(file.text(7));
  std::vector<std::string> lines;
  for (const std::string& node : graph.texts.at(1)) lines.push_back(line_of(Message(node)));
  return {file, graph, lines};
}

TEST_CASE("onnx: metadata stands in the file's metadata_props") {
  nn::Sequential net;
  net.add<nn::Linear>(4, 2);
  const Exported plain = exported(net, {.input = {1, 4}});
  CHECK_FALSE(plain.file.texts.contains(14));
  const Exported told = exported(net, {.input = {1, 4}, .metadata = {{"a", "1"}, {"b", "[]"}}});
  std::string entries;
  for (const std::string& bytes : told.file.texts.at(14))
    entries += Message(bytes).text(1) + "=" + Message(bytes).text(2) + " ";
  CHECK(entries == "a=1 b=[] ");
  CHECK(told.lines == plain.lines);
}

TEST_CASE("onnx: an MLP is the nodes of its layers") {
  nn::Sequential net;
  net.add<nn::MLP>(4, std::vector<int64_t>{6, 5, 2});
  CHECK(exported(net, {.input = {1, 4}}).lines ==
        std::vector<std::string>{
            "Gemm(input,0.0.weight,0.0.bias)→0.0 transB=1",
            "Relu(0.0)→0.1",
            "Gemm(0.1,0.2.weight,0.2.bias)→0.2 transB=1",
            "Relu(0.2)→0.3",
            "Gemm(0.3,0.4.weight,0.4.bias)→0.4 transB=1",
            "Identity(0.4)→output",
        });
  nn::MLP gelu(4, {6, 2}, {.activation = Activation::kGelu});
  CHECK_THROWS_WITH_AS(exported(gelu, {.input = {1, 4}}), doctest::Contains("with a relu alone"),
                       ValueError);
}

TEST_CASE("onnx: a chain of layers is a chain of nodes, with the state dict's weights") {
  nn::Sequential net;
  net.add<nn::Conv2d>(3, 4, nn::Conv2dOptions{.kernel = {3, 5}, .stride = 2, .pad = {1, 2}});
  net.add<nn::BatchNorm2d>(4);
  net.add<nn::ReLU>();
  net.add<nn::MaxPool2d>(MaxPool2dOptions{.kernel = 2});
  net.add<nn::Dropout>();
  net.add<nn::Flatten>();
  net.add<nn::Linear>(16, 5, nn::LinearOptions{.bias = false});
  const Exported got = exported(net, {.input = {2, 3, 8, 8}});
  CHECK(got.lines ==
        std::vector<std::string>{
            "Conv(input,0.weight,0.bias)→0 kernel_shape=3,5 strides=2,2 pads=1,2,1,2 "
            "dilations=1,1 group=1",
            "BatchNormalization(0,1.weight,1.bias,1.running_mean,1.running_var)→1 epsilon=10",
            "Relu(1)→2",
            "MaxPool(2)→3 kernel_shape=2,2 strides=2,2 pads=0,0,0,0 dilations=1,1",
            "Flatten(3)→5 axis=1",
            "Gemm(5,6.weight)→6 transB=1",
            "Identity(6)→output",
        });
  CHECK(got.file.numbers.at(1) == std::vector<int64_t>{7});                    // IR version
  CHECK(Message(got.file.text(8)).numbers.at(2) == std::vector<int64_t>{13});  // opset
  const StateDict state = net.state_dict();
  REQUIRE(got.graph.texts.at(5).size() == 7);
  for (const std::string& bytes : got.graph.texts.at(5)) {
    const Message tensor(bytes);
    const Tensor& want = state.at(tensor.text(8));
    CHECK(tensor.numbers.at(1) == want.shape().vector());
    CHECK(tensor.numbers.at(2) == std::vector<int64_t>{1});
    CHECK(tensor.text(9) == std::string(static_cast<const char*>(want.raw_data()),
                                        static_cast<size_t>(want.bytes())));
  }
  const Message input(got.graph.text(11));
  CHECK(input.text(1) == "input");
  const Message type(Message(input.text(2)).text(1));
  const Message shape(type.text(2));
  CHECK(Message(shape.texts.at(1)[0]).text(2) == "N");
  CHECK(Message(shape.texts.at(1)[1]).numbers.at(1) == std::vector<int64_t>{3});
  CHECK(Message(got.graph.text(12)).text(1) == "output");
}

TEST_CASE("onnx: ResNets have the nodes of their forward") {
  const auto count = [](const std::vector<std::string>& lines, const std::string& op) {
    return std::ranges::count_if(lines, [&](auto& line) { return line.starts_with(op + "("); });
  };
  const auto large = exported(nn::resnet18(), {.input = {1, 3, 64, 64}}).lines;
  CHECK(count(large, "Conv") == 20);
  CHECK(count(large, "BatchNormalization") == 20);
  CHECK(count(large, "Relu") == 17);
  CHECK(count(large, "Add") == 8);
  CHECK(count(large, "MaxPool") == 1);
  CHECK(large.back() == "Identity(fc)→output");
  const auto cifar = exported(nn::resnet18({.stem = nn::Stem::kCifar}), {.input = {1, 3, 32, 32}});
  CHECK(count(cifar.lines, "MaxPool") == 0);
  const auto small = exported(nn::resnet8(), {.input = {1, 3, 32, 32}}).lines;
  CHECK(count(small, "Conv") == 7);
  CHECK(count(small, "Slice") == 2);
  CHECK(count(small, "Pad") == 2);
  const nn::init::Skip skip;
  const auto deep = exported(nn::resnet50(), {.input = {1, 3, 64, 64}}).lines;
  CHECK(count(deep, "Conv") == 53);
  CHECK(count(deep, "Relu") == 49);
  CHECK(count(deep, "Add") == 16);
}

TEST_CASE("onnx: MobileNetV2 and EfficientNet have the nodes of their forward") {
  const auto count = [](const std::vector<std::string>& lines, const std::string& op) {
    return std::ranges::count_if(lines, [&](auto& line) { return line.starts_with(op + "("); });
  };
  const nn::init::Skip skip;
  const auto mobile = exported(nn::mobilenet_v2(), {.input = {1, 3, 64, 64}}).lines;
  CHECK(count(mobile, "Conv") == 52);
  CHECK(count(mobile, "Clip") == 35);
  CHECK(count(mobile, "Add") == 10);
  const auto efficient = exported(nn::efficientnet_b0(), {.input = {1, 3, 64, 64}}).lines;
  CHECK(count(efficient, "Conv") == 81);
  CHECK(count(efficient, "GlobalAveragePool") == 17);
  CHECK(count(efficient, "Add") == 9);
  CHECK(efficient.back() == "Identity(classifier.1)→output");
}

/// The names of the graph's constants, sorted.
std::vector<std::string> constants_of(const Exported& file) {
  std::vector<std::string> names;
  for (const std::string& bytes : file.graph.texts.at(5)) names.push_back(Message(bytes).text(8));
  std::ranges::sort(names);
  return names;
}

/// The state dict's names that an ONNX file has.
std::vector<std::string> entries_of(const nn::Module& net) {
  std::vector<std::string> names;
  for (const auto& [name, entry] : net.state_dict()) {
    if (!name.ends_with("num_batches_tracked")) names.push_back(name);
  }
  std::ranges::sort(names);
  return names;
}

TEST_CASE("onnx: a model inside of another has the names of its place") {
  const nn::init::Skip skip;
  const auto check = [](auto&& model) {
    nn::Sequential net;
    net.push_back(std::forward<decltype(model)>(model));
    net.add<nn::ReLU>();
    net.add<nn::Linear>(8, 4);
    const Exported got = exported(net, {.input = {1, 3, 32, 32}});
    for (size_t i = 0; i + 3 < got.lines.size(); ++i) {
      CAPTURE(got.lines[i]);
      CHECK(got.lines[i].find("→0.") != std::string::npos);
    }
    CHECK(got.lines.back() == "Identity(2)→output");
    std::vector<std::string> constants = constants_of(got);
    std::erase_if(constants, [](auto& name) { return name.find('/') != name.npos; });
    CHECK(constants == entries_of(net));
  };
  check(nn::resnet18({.classes = 8}));
  check(nn::resnet8({.classes = 8}));
  check(nn::mobilenet_v2({.classes = 8}));
  check(nn::efficientnet_b0({.classes = 8}));
}

TEST_CASE("onnx: a block on its own has the names of its layers") {
  const auto check = [](const nn::Module& block, const std::vector<std::string>& first) {
    const Exported got = exported(block, {.input = {1, 8, 8, 8}});
    for (size_t i = 0; i < first.size(); ++i) CHECK(got.lines[i].starts_with(first[i]));
    std::vector<std::string> constants = constants_of(got);
    std::erase_if(constants, [](auto& name) { return name.find('/') != name.npos; });
    CHECK(constants == entries_of(block));
  };
  check(nn::BasicBlock(8, 16, 2), {"Conv(input,conv1.weight)→conv1 "});
  check(nn::Bottleneck(8, 4, 16, 2), {"Conv(input,conv1.weight)→conv1 "});
  check(nn::CifarBlock(8, 16, 2), {"Conv(input,conv1.weight)→conv1 "});
  check(nn::InvertedResidual(8, 8, 1, 2), {"Conv(input,conv.0.0.weight)→conv.0.0 "});
  check(nn::MBConv({.in = 8, .out = 8, .expand = 2}), {"Conv(input,block.0.0.weight)→block.0.0 "});
}

TEST_CASE("onnx: all relu6 share their two constants") {
  const nn::init::Skip skip;
  const auto net = nn::mobilenet_v2();
  std::vector<std::string> want = entries_of(net);
  want.insert(want.end(), {"relu6/high", "relu6/low"});
  std::ranges::sort(want);
  CHECK(constants_of(exported(net, {.input = {1, 3, 32, 32}})) == want);
}

TEST_CASE("onnx: a half model is written as f32, and stays as it is") {
  nn::Linear net(3, 2);
  net.half();
  const Exported got = exported(net, {.input = {1, 3}});
  CHECK(got.lines[0] == "Gemm(input,weight,bias)→Gemm transB=1");
  CHECK(Message(got.graph.texts.at(5)[0]).text(9).size() == 24);
  CHECK(net.weight.dtype() == kF16);
}

TEST_CASE("onnx: what has no ONNX form is refused by name, and the old file stays") {
  const TempDir dir;
  const std::string path = dir / "x.onnx";
  write_file_atomic(path, "old");
  const auto error_of = [&](const nn::Module& net, const nn::OnnxOptions& options) {
    return message_of<ValueError>([&] { nn::save_onnx(net, path, options); });
  };
  nn::Sequential net;
  net.add_named<nn::Sequential>("a").add<nn::LayerNorm>(Shape{4});
  CHECK(error_of(net, {.input = {1, 4}}) == "save_onnx: a.0: a LayerNorm has no ONNX form here");
  const nn::init::Skip skip;
  CHECK(error_of(nn::vit_s_16(), {.input = {1, 3, 224, 224}}) ==
        "save_onnx: a VisionTransformer has no ONNX form here");
  nn::Sequential pool;
  pool.add<nn::MaxPool2d>(MaxPool2dOptions{.kernel = 2, .ceil_mode = true});
  CHECK(error_of(pool, {.input = {1, 4, 8, 8}}).find("0: pooling with ceil_mode") !=
        std::string::npos);
  nn::Sequential planes;
  planes.add<nn::Conv2d>(3, 4, nn::Conv2dOptions{.kernel = 3});
  CHECK(error_of(planes, {.input = {3, 8, 8}}) ==
        "save_onnx: 0: the input must be [N,C,H,W], not 3-d");
  nn::Sequential scaled;
  scaled.add<nn::AvgPool2d>(AvgPool2dOptions{.kernel = 2, .divisor_override = 3});
  CHECK(
      error_of(scaled, {.input = {1, 4, 8, 8}}).find("AvgPool2d with divisor_override 3 has no") !=
      std::string::npos);
  nn::Sequential grid;
  grid.add<nn::AdaptiveAvgPool2d>(2);
  CHECK(error_of(grid, {.input = {1, 4, 8, 8}}).find("for an output of 1, not 2") !=
        std::string::npos);
  nn::Sequential flat;
  flat.add<nn::Flatten>(nn::FlattenOptions{.first = 0});
  CHECK(error_of(flat, {.input = {1, 4}}).find("dimensions 1 to -1, not 0 to -1") !=
        std::string::npos);
  nn::Sequential taken;
  taken.add_named<nn::ReLU>("input");
  CHECK(error_of(taken, {.input = {1, 4}}).find("\"input\" stands for two values") !=
        std::string::npos);
  CHECK(error_of(nn::ReLU(), {}).find("the input's shape must be set") != std::string::npos);
  nn::BatchNorm1d free(4, {.track_running_stats = false});
  CHECK(error_of(free, {.input = {1, 4}}).find("without running statistics") != std::string::npos);
  CHECK(data::testing::read_file(path) == "old");
}

}  // namespace
}  // namespace lathe
