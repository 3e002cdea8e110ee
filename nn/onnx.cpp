// ONNX export: Exporter::emit() says which module becomes which nodes. onnx_graph.cpp writes them.
#include "lathe/nn/onnx.h"

#include <type_traits>

#include "lathe/core/file.h"
#include "lathe/nn/activation.h"
#include "lathe/nn/batch_norm.h"
#include "lathe/nn/containers.h"
#include "lathe/nn/conv.h"
#include "lathe/nn/conv_norm.h"
#include "lathe/nn/dropout.h"
#include "lathe/nn/efficientnet.h"
#include "lathe/nn/embedding.h"
#include "lathe/nn/linear.h"
#include "lathe/nn/mlp.h"
#include "lathe/nn/mobilenet.h"
#include "lathe/nn/onnx_graph.h"
#include "lathe/nn/pool2d.h"
#include "lathe/nn/resnet.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/views.h"

namespace lathe::nn {

namespace {

using A = OnnxAttribute;

/// A value of the graph: its name, and how many dimensions it has.
struct Value {
  std::string name;
  int ndim = 0;
};

std::vector<int64_t> both(const Pair& pair) { return {pair.rows, pair.cols}; }
std::vector<int64_t> all_sides(const Pair& pad) { return {pad.rows, pad.cols, pad.rows, pad.cols}; }
Pair or_kernel(const Pair& stride, const Pair& kernel) {
  return {stride.rows == 0 ? kernel.rows : stride.rows,
          stride.cols == 0 ? kernel.cols : stride.cols};
}

class Exporter {
 public:
  explicit Exporter(OnnxGraph& graph) : graph_(graph) {}

  /// Adds what `module` computes of x; `name` is its path in the model.
  Value emit(const Module& module, const std::string& name, const Value& x) {
    const auto is = [&]<class T>(const T*& as) {
      as = dynamic_cast<const T*>(&module);
      return as != nullptr;
    };
    const auto same = [&](const char* op, std::vector<A> attributes = {}) {
      return Value{graph_.node(op, name, {x.name}, attributes), x.ndim};
    };
    if (const Conv2d* m = nullptr; is(m)) return conv(*m, name, x);
    if (const BatchNorm* m = nullptr; is(m)) return batch_norm(*m, name, x);
    if (const Linear* m = nullptr; is(m)) return linear(*m, name, x);
    if (const MLP* m = nullptr; is(m)) return mlp(*m, name, x);
    if (const Embedding* m = nullptr; is(m)) {
      return {
          graph_.node("Gather", name, {graph_.weight(below(name, "weight"), m->weight), x.name}),
          x.ndim + 1};
    }
    if (const Flatten* m = nullptr; is(m)) return flatten(*m, name, x);
    if (const MaxPool2d* m = nullptr; is(m)) return max_pool(m->options(), name, x);
    if (const AvgPool2d* m = nullptr; is(m)) return avg_pool(m->options(), name, x);
    if (const AdaptiveAvgPool2d* m = nullptr; is(m)) {
      LATHE_CHECK(ValueError, m->out() == 1, "save_onnx: ", at(name),
                  "AdaptiveAvgPool2d has an ONNX form for an output of 1, not ", m->out());
      check_planes(name, x);
      return same("GlobalAveragePool");
    }
    if (const ReLU* m = nullptr; is(m)) return same("Relu");
    if (const Tanh* m = nullptr; is(m)) return same("Tanh");
    if (const Sigmoid* m = nullptr; is(m)) return same("Sigmoid");
    if (const SiLU* m = nullptr; is(m)) return silu(name, x);
    if (const ReLU6* m = nullptr; is(m)) return relu6(name, x);
    if (const LeakyReLU* m = nullptr; is(m)) {
      return same("LeakyRelu", {A::number("alpha", m->slope())});
    }
    if (const Softmax* m = nullptr; is(m)) return same("Softmax", {A::integer("axis", m->dim())});
    if (const Dropout* m = nullptr; is(m)) return x;
    if (const StochasticDepth* m = nullptr; is(m)) return x;
    if (const Identity* m = nullptr; is(m)) return x;
    if (const Sequential* m = nullptr; is(m)) return children(*m, name, x);
    if (const BasicBlock* m = nullptr; is(m)) return block(*m, name, x);
    if (const CifarBlock* m = nullptr; is(m)) return block(*m, name, x);
    if (const Bottleneck* m = nullptr; is(m)) return block(*m, name, x);
    if (const ResNet* m = nullptr; is(m)) return resnet(*m, name, x);
    if (const CifarResNet* m = nullptr; is(m)) return resnet(*m, name, x);
    if (const Conv2dNormActivation* m = nullptr; is(m)) return conv_norm(*m, name, x);
    if (const SqueezeExcitation* m = nullptr; is(m)) return squeeze(*m, name, x);
    if (const InvertedResidual* m = nullptr; is(m)) {
      return residual(m->is_residual(), emit(m->conv, below(name, "conv"), x), name, x);
    }
    if (const MBConv* m = nullptr; is(m)) {
      return residual(m->is_residual(), emit(m->block, below(name, "block"), x), name, x);
    }
    if (const MobileNetV2* m = nullptr; is(m)) return classified(*m, name, x);
    if (const EfficientNet* m = nullptr; is(m)) return classified(*m, name, x);
    LATHE_FAIL(ValueError, "save_onnx: ", at(name), "a ", module.type_name(),
               " has no ONNX form here");
  }

 private:
  static std::string at(const std::string& name) { return name.empty() ? "" : name + ": "; }
  static std::string below(const std::string& name, const std::string& child) {
    return name.empty() ? child : name + "." + child;
  }

  Value children(const Module& module, const std::string& name, Value x) {
    for (const auto& [child_name, child] : module.named_children()) {
      x = emit(*child, below(name, child_name), x);
    }
    return x;
  }

  Value conv(const Conv2d& m, const std::string& name, const Value& x) {
    check_planes(name, x);
    std::vector<std::string> inputs = {x.name, graph_.weight(below(name, "weight"), m.weight)};
    if (m.bias.defined()) inputs.push_back(graph_.weight(below(name, "bias"), m.bias));
    const Conv2dOptions& o = m.options();
    return {graph_.node("Conv", name, inputs,
                        {A::list("kernel_shape", both(o.kernel)),
                         A::list("strides", both(o.stride)), A::list("pads", all_sides(o.pad)),
                         A::list("dilations", both(o.dilation)), A::integer("group", o.groups)}),
            x.ndim};
  }

  Value batch_norm(const BatchNorm& m, const std::string& name, const Value& x) {
    LATHE_CHECK(ValueError, m.running_mean.defined(), "save_onnx: ", at(name),
                "a batch norm without running statistics has no ONNX form");
    const Shape channels = m.running_mean.shape();
    const Tensor scale = m.weight.defined() ? Tensor(m.weight) : ones(channels);
    const Tensor shift = m.bias.defined() ? Tensor(m.bias) : zeros(channels);
    return {graph_.node("BatchNormalization", name,
                        {x.name, graph_.weight(below(name, "weight"), scale),
                         graph_.weight(below(name, "bias"), shift),
                         graph_.weight(below(name, "running_mean"), m.running_mean),
                         graph_.weight(below(name, "running_var"), m.running_var)},
                        {A::number("epsilon", m.options().eps)}),
            x.ndim};
  }

  Value linear(const Linear& m, const std::string& name, const Value& x) {
    if (x.ndim == 2) {
      std::vector<std::string> inputs = {x.name, graph_.weight(below(name, "weight"), m.weight)};
      if (m.bias.defined()) inputs.push_back(graph_.weight(below(name, "bias"), m.bias));
      return {graph_.node("Gemm", name, inputs, {A::integer("transB", 1)}), 2};
    }
    const std::string weight = graph_.weight(below(name, "weight"), m.weight);
    const std::string transposed =
        graph_.node("Transpose", name + "/weight", {weight}, {A::list("perm", {1, 0})});
    if (!m.bias.defined()) return {graph_.node("MatMul", name, {x.name, transposed}), x.ndim};
    const std::string product = graph_.node("MatMul", name + "/product", {x.name, transposed});
    return {graph_.node("Add", name, {product, graph_.weight(below(name, "bias"), m.bias)}),
            x.ndim};
  }

  Value flatten(const Flatten& m, const std::string& name, const Value& x) {
    const bool all =
        m.options().first == 1 && (m.options().last == -1 || m.options().last == x.ndim - 1);
    LATHE_CHECK(ValueError, all, "save_onnx: ", at(name),
                "Flatten has an ONNX form for dimensions 1 "
                "to -1, not ",
                m.options().first, " to ", m.options().last);
    return {graph_.node("Flatten", name, {x.name}, {A::integer("axis", 1)}), 2};
  }

  Value max_pool(const MaxPool2dOptions& o, const std::string& name, const Value& x) {
    check_planes(name, x);
    check_floor(o.ceil_mode, name);
    return {
        graph_.node("MaxPool", name, {x.name},
                    {A::list("kernel_shape", both(o.kernel)),
                     A::list("strides", both(or_kernel(o.stride, o.kernel))),
                     A::list("pads", all_sides(o.pad)), A::list("dilations", both(o.dilation))}),
        x.ndim};
  }

  Value avg_pool(const AvgPool2dOptions& o, const std::string& name, const Value& x) {
    check_planes(name, x);
    check_floor(o.ceil_mode, name);
    LATHE_CHECK(ValueError, !o.divisor_override, "save_onnx: ", at(name),
                "AvgPool2d with divisor_override ", *o.divisor_override, " has no ONNX form");
    return {graph_.node("AveragePool", name, {x.name},
                        {A::list("kernel_shape", both(o.kernel)),
                         A::list("strides", both(or_kernel(o.stride, o.kernel))),
                         A::list("pads", all_sides(o.pad)),
                         A::integer("count_include_pad", o.count_include_pad)}),
            x.ndim};
  }

  /// Our layers also take planes without a batch; ONNX would read those as lines of a 1-d layer.
  static void check_planes(const std::string& name, const Value& x) {
    LATHE_CHECK(ValueError, x.ndim == 4, "save_onnx: ", at(name),
                "the input must be [N,C,H,W], not ", x.ndim, "-d");
  }

  /// Refuses ceil_mode, because runtimes disagree about the last window.
  static void check_floor(bool ceil_mode, const std::string& name) {
    LATHE_CHECK(ValueError, !ceil_mode, "save_onnx: ", at(name),
                "pooling with ceil_mode has no ONNX form here");
  }

  // --- the networks of resnet.h, as their forward() has them -------------------------------------

  Value relu(const std::string& name, const Value& x) {
    return {graph_.node("Relu", name, {x.name}), x.ndim};
  }

  template <class Block>
  Value block(const Block& m, const std::string& name, const Value& x) {
    const auto in = [&](const char* child) { return below(name, child); };
    Value y = relu(in("relu1"), emit(m.bn1, in("bn1"), emit(m.conv1, in("conv1"), x)));
    y = emit(m.bn2, in("bn2"), emit(m.conv2, in("conv2"), y));
    if constexpr (std::is_same_v<Block, Bottleneck>) {
      y = emit(m.bn3, in("bn3"), emit(m.conv3, in("conv3"), relu(in("relu2"), y)));
    }
    const Value from = shortcut(m, name, x);
    return relu(in("relu"), {graph_.node("Add", in("add"), {y.name, from.name}), y.ndim});
  }

  /// Of BasicBlock and Bottleneck.
  template <class Block>
  Value shortcut(const Block& m, const std::string& name, const Value& x) {
    return m.downsample ? emit(*m.downsample, below(name, "downsample"), x) : x;
  }

  /// Every other pixel, and zeros for the new channels.
  Value shortcut(const CifarBlock& m, const std::string& name, const Value& x) {
    Value y = x;
    const auto list = [&](const char* what, const std::vector<int64_t>& values) {
      return graph_.weight(below(name, "shortcut/") + what, tensor(values));
    };
    if (const int64_t stride = m.conv1.options().stride.rows; stride > 1) {
      constexpr int64_t kEnd = INT64_MAX;
      y.name = graph_.node("Slice", below(name, "shortcut/slice"),
                           {y.name, list("starts", {0, 0}), list("ends", {kEnd, kEnd}),
                            list("axes", {2, 3}), list("steps", {stride, stride})});
    }
    if (const int64_t more = m.conv1.weight.dim(0) - m.conv1.weight.dim(1); more > 0) {
      const int64_t before = more / 2;
      y.name = graph_.node("Pad", below(name, "shortcut/pad"),
                           {y.name, list("pads", {0, before, 0, 0, 0, more - before, 0, 0})});
    }
    return y;
  }

  /// The nodes of Sequential(Linear, ReLU, Linear, …).
  Value mlp(const MLP& m, const std::string& name, Value x) {
    LATHE_CHECK(ValueError, is_relu(m.activation()), "save_onnx: ", at(name),
                "an MLP has an ONNX form here with a relu alone");
    size_t i = 0;
    for (const auto& layer : m.layers()) {
      if (i > 0) x = relu(below(name, std::to_string(i - 1)), x);
      x = emit(*layer, below(name, std::to_string(i)), x);
      i += 2;
    }
    return x;
  }

  /// The mean of each channel, as [N,C].
  Value channel_means(const std::string& name, const Value& x) {
    const std::string mean = graph_.node("GlobalAveragePool", below(name, "mean"), {x.name});
    return {graph_.node("Flatten", below(name, "flatten"), {mean}, {A::integer("axis", 1)}), 2};
  }

  Value resnet(const ResNet& m, const std::string& name, const Value& x) {
    const auto in = [&](const char* child) { return below(name, child); };
    Value y = relu(in("relu"), emit(m.bn1, in("bn1"), emit(m.conv1, in("conv1"), x)));
    if (m.stem() == Stem::kImagenet) {
      y = max_pool({.kernel = 3, .stride = 2, .pad = 1}, in("maxpool"), y);
    }
    y = emit(m.layer2, in("layer2"), emit(m.layer1, in("layer1"), y));
    y = emit(m.layer4, in("layer4"), emit(m.layer3, in("layer3"), y));
    return emit(m.fc, in("fc"), channel_means(name, y));
  }

  Value resnet(const CifarResNet& m, const std::string& name, const Value& x) {
    const auto in = [&](const char* child) { return below(name, child); };
    Value y = relu(in("relu"), emit(m.bn1, in("bn1"), emit(m.conv1, in("conv1"), x)));
    y = emit(m.layer2, in("layer2"), emit(m.layer1, in("layer1"), y));
    return emit(m.fc, in("fc"), channel_means(name, emit(m.layer3, in("layer3"), y)));
  }

  // --- mobilenet.h and efficientnet.h ------------------------------------------------------------

  Value silu(const std::string& name, const Value& x) {
    const std::string gate = graph_.node("Sigmoid", name + "/gate", {x.name});
    return {graph_.node("Mul", name, {x.name, gate}), x.ndim};
  }

  /// All relu6 share their two constants.
  Value relu6(const std::string& name, const Value& x) {
    return {graph_.node("Clip", name,
                        {x.name, graph_.weight("relu6/low", tensor(0.0f)),
                         graph_.weight("relu6/high", tensor(6.0f))}),
            x.ndim};
  }

  Value conv_norm(const Conv2dNormActivation& m, const std::string& name, const Value& x) {
    const Value y = emit(m.norm, below(name, "1"), emit(m.conv, below(name, "0"), x));
    switch (m.activation()) {
      case ConvActivation::kReLU: return relu(below(name, "2"), y);
      case ConvActivation::kReLU6: return relu6(below(name, "2"), y);
      case ConvActivation::kSiLU: return silu(below(name, "2"), y);
      case ConvActivation::kNone: break;
    }
    return y;
  }

  Value squeeze(const SqueezeExcitation& m, const std::string& name, const Value& x) {
    const Value means{graph_.node("GlobalAveragePool", name + "/means", {x.name}), 4};
    const Value inner = silu(name + "/silu", emit(m.fc1, below(name, "fc1"), means));
    const Value outer = emit(m.fc2, below(name, "fc2"), inner);
    const std::string scale = graph_.node("Sigmoid", name + "/scale", {outer.name});
    return {graph_.node("Mul", name, {x.name, scale}), 4};
  }

  Value residual(bool is_residual, const Value& y, const std::string& name, const Value& x) {
    return is_residual ? Value{graph_.node("Add", name + "/add", {x.name, y.name}), 4} : y;
  }

  /// features, the mean of each channel, classifier.
  template <class Model>
  Value classified(const Model& m, const std::string& name, const Value& x) {
    const Value y = emit(m.features, below(name, "features"), x);
    return emit(m.classifier, below(name, "classifier"), channel_means(name, y));
  }

  OnnxGraph& graph_;
};

}  // namespace

void save_onnx(const Module& model, const std::string& path, const OnnxOptions& options) {
  LATHE_CHECK(ValueError, !options.input.empty(),
              "save_onnx: the input's shape must be set, e.g. {.input = {1, 3, 224, 224}}");
  OnnxGraph graph(options.name);
  for (const auto& [key, value] : options.metadata) graph.metadata(key, value);
  const std::string_view batch = options.dynamic_batch ? "N" : "";
  graph.input("input", options.input_dtype, options.input, batch);
  const Value y = Exporter(graph).emit(model, "", {"input", options.input.size()});
  Dims sizes = Dims::filled(y.ndim, -1);
  if (y.ndim > 0) sizes[0] = options.input[0];
  graph.output(graph.node("Identity", "output", {y.name}), kF32, sizes, batch);
  write_file_atomic(path, graph.file());
}

bool is_saved_onnx(const std::string& path) {
  const std::string expected = OnnxGraph::beginning();
  const InputFile file(path);
  std::string start(expected.size(), '\0');
  if (file.size() < std::ssize(start)) return false;
  file.read(start.data(), std::ssize(start), 0);
  return start == expected;
}

}  // namespace lathe::nn
