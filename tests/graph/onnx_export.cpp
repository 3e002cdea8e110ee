// onnx_export MODEL FOLDER: writes FOLDER/MODEL.onnx with random weights and statistics, a batch of
// inputs (MODEL.in0.npy) and what lathe makes of it (MODEL.out0.npy). MODEL "ops" is the program
// that calls every op, with an output for each. Driven by onnx_python_test.py.
#define DOCTEST_CONFIG_IMPLEMENT  // of op_table_test.cpp, whose program this writes
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>

#include "lathe/autograd/grad_mode.h"
#include "lathe/core/formats/npy.h"
#include "lathe/core/random/generator.h"
#include "lathe/graph/onnx/onnx.h"
#include "lathe/graph/op_table.h"
#include "lathe/graph/trace.h"
#include "lathe/nn/activation.h"
#include "lathe/nn/dropout.h"
#include "lathe/nn/embedding.h"
#include "lathe/nn/models.h"
#include "lathe/nn/pool2d.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/inplace.h"
#include "lathe/ops/random.h"
#include "lathe/tests/graph/every_op.h"

namespace {

using namespace lathe;

std::unique_ptr<nn::Module> layers() {
  auto net = std::make_unique<nn::Sequential>();
  net->add<nn::Conv2d>(
      3, 8,
      nn::Conv2dOptions{.kernel = {3, 5}, .stride = {2, 1}, .pad = {1, 2}, .dilation = {1, 1}});
  net->add<nn::LeakyReLU>(0.2);
  net->add<nn::Conv2d>(
      8, 8, nn::Conv2dOptions{.kernel = 3, .pad = 2, .dilation = 2, .groups = 4, .bias = false});
  net->add<nn::BatchNorm2d>(8, nn::BatchNormOptions{.eps = 1e-3, .affine = false});
  net->add<nn::SiLU>();
  net->add<nn::MaxPool2d>(MaxPool2dOptions{.kernel = 3, .stride = 2, .pad = 1});
  net->add<nn::AvgPool2d>(AvgPool2dOptions{.kernel = 2, .stride = 1, .pad = 1});
  net->add<nn::AvgPool2d>(
      AvgPool2dOptions{.kernel = 2, .stride = 1, .pad = 1, .count_include_pad = false});
  net->add<nn::AdaptiveAvgPool2d>(5);
  net->add<nn::Dropout>(0.5);
  net->add<nn::AdaptiveAvgPool2d>(1);
  net->add<nn::Flatten>();
  net->add<nn::Linear>(8, 16);
  net->add<nn::BatchNorm1d>(16);
  net->add<nn::Tanh>();
  net->add<nn::Linear>(16, 4, nn::LinearOptions{.bias = false});
  return net;
}

std::unique_ptr<nn::Module> text() {
  auto net = std::make_unique<nn::Sequential>();
  net->add<nn::Embedding>(50, 8);
  net->add<nn::Linear>(8, 6);
  net->add<nn::Sigmoid>();
  net->add<nn::Linear>(6, 3, nn::LinearOptions{.bias = false});
  net->add<nn::Softmax>(-1);
  return net;
}

/// Models inside of others.
std::unique_ptr<nn::Module> nested() {
  auto net = std::make_unique<nn::Sequential>();
  net->push_back(nn::mobilenet_v2({.classes = 8}));
  net->add<nn::ReLU6>();
  net->add<nn::Linear>(8, 4);
  return net;
}

std::unique_ptr<nn::Module> make(const std::string& name) {
  if (name == "layers") return layers();
  if (name == "text") return text();
  if (name == "nested") return nested();
  if (name == "small_vit") {
    return std::make_unique<nn::VisionTransformer>(
        nn::ViTLayout{.patch_size = 16, .layers = 2, .heads = 2, .hidden = 16, .mlp = 32},
        nn::ViTOptions{.classes = 5, .image_size = 64});
  }
  const auto own = [](auto&& function) {  // a model is neither copied nor moved
    return std::unique_ptr<nn::Module>(new auto(function()));
  };
  if (name == "resnet18-cifar") {
    return own([] { return nn::resnet18({.classes = 10, .stem = nn::Stem::kCifar}); });
  }
  return nn::make_model(name);
}

void write(const std::string& at, const jit::Graph& graph, const Tensors& inputs) {
  jit::save_onnx(graph, at + ".onnx");
  const Tensors outputs = graph.run(inputs);
  for (size_t i = 0; i < inputs.size(); ++i) npy::write(concat(at, ".in", i, ".npy"), inputs[i]);
  for (size_t i = 0; i < outputs.size(); ++i) {
    npy::write(concat(at, ".out", i, ".npy"), outputs[i]);
  }
}

/// Every op but those without an ONNX form.
void write_ops(const std::string& at) {
  jit::Graph graph = jit::parse(testing::every_op_text(true));
  std::erase_if(graph.nodes, [](const jit::Node& n) {
    const std::string& op = n.op->name;
    constexpr std::string_view kWithout[] = {"atan2",   "cross_entropy", "nll_loss", "lgamma",
                                             "digamma", "erfinv",        "polygamma"};
    return op.ends_with("_grad") || op.starts_with("bitwise_") ||
           std::ranges::find(kWithout, op) != std::end(kWithout);
  });
  std::erase_if(graph.outputs, [&](int output) {
    return std::none_of(graph.nodes.begin(), graph.nodes.end(),
                        [&](const jit::Node& n) { return n.output == output; });
  });
  write(at, graph, testing::every_op_inputs());
}

void write_model(const std::string& at, const std::string& name) {
  const auto net = make(name);
  for (const auto& [buffer, t] : net->named_buffers()) {  // statistics that are not 0 and 1
    if (buffer.ends_with("running_mean")) t.copy_(randn(t.shape()) * 0.1);
    if (buffer.ends_with("running_var")) t.copy_(rand(t.shape()) + 0.5);
  }
  for (const auto& [parameter, t] : net->named_parameters()) {  // zero in a new transformer
    if (parameter.ends_with("head.weight")) t.copy_(randn(t.shape()) * 0.1);
  }
  net->eval();
  const int64_t side = name == "layers" || name == "resnet20" || name == "resnet18-cifar" ? 32 : 64;
  const Tensor x = name == "text" ? randint(0, 50, {2, 7}) : randn({2, 3, side, side});
  write(at, jit::trace(*net, x), {x});
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: onnx_export MODEL FOLDER\n");
    return 2;
  }
  try {
    const NoGrad off;
    manual_seed(7);
    const std::string name = argv[1], at = std::string(argv[2]) + "/" + name;
    if (name == "ops") {
      write_ops(at);
    } else {
      write_model(at, name);
    }
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.message().c_str());
    return 1;
  }
  return 0;
}
