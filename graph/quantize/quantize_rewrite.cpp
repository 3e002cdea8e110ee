// The quantised form of a graph. Contract: quantize_rewrite.h.
//
// A value of the old graph may have two forms in the new one, as integers and in f32. Each is made
// when the first reader asks for it: by the layer itself, by `quantize` or by `dequantize`.
#include "lathe/graph/quantize/quantize_rewrite.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <utility>

#include "lathe/core/error.h"
#include "lathe/core/format.h"
#include "lathe/graph/op_table.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/quantized.h"

namespace lathe::jit {

namespace {

constexpr int kNoValue = -1;
constexpr int64_t kMostProducts = 65536;  // ops/quantized.h

bool convolves(const Node& node) {
  return node.op->name == "conv2d" || node.op->name == "fused_conv2d";
}

/// Ops that move elements, choose among them or put zeros beside them, and do the same to integers.
bool moves_elements(const Node& node) {
  static const std::vector<std::string> names = {"contiguous", "flatten",   "max_pool2d",
                                                 "narrow",     "permute",   "reshape",
                                                 "slice",      "transpose", "view"};
  if (node.op->name != "pad")
    return std::find(names.begin(), names.end(), node.op->name) != names.end();
  const Attribute& last = node.attributes.back();
  return last == Attribute(0.0) || last == Attribute(Size{});
}

const Op* op_named(const char* name) { return &find_ops(name).front(); }

/// A view as a reshape: quantised layers give NHWC, whose elements a view cannot show in any shape.
Node of_any_order(Node node) {
  if (node.op->name == "view") node.op = op_named("reshape");
  return node;
}

bool is_f32_on_cpu(const Tensor& t) {
  return t.defined() && t.device().is_cpu() && t.dtype() == kF32;
}

/// The residual of a fused_conv2d, or kNoValue.
int residual_of(const Node& node) {
  return node.op->name == "fused_conv2d" ? node.inputs[3] : kNoValue;
}

/// Where an op cuts its input to 0 … h, as relu6 does: h, else 0.
double upper_cut(const Node& node) {
  const std::string& name = node.op->name;
  if (name == "relu6") return 6;
  if (name != "clamp" && name != "hardtanh") return 0;
  const auto number = [&](size_t i) {
    const auto* const whole = std::get_if<Size>(&node.attributes[i]);
    if (whole != nullptr) return static_cast<double>(whole->fixed);
    const auto* const real = std::get_if<double>(&node.attributes[i]);
    return real != nullptr ? *real : 0;
  };
  return number(0) == 0 ? std::max(0.0, number(1)) : 0;
}

bool ends_with_gelu(const Node& node) {
  return node.op->name == "linear" && !node.attributes.empty() &&
         std::get<std::string>(attribute_of(node, "activation")).starts_with("gelu");
}

struct Filters {
  Tensor integers, scales;
};

/// One scale for each output channel, up to its largest element.
Filters quantized_filters(const Value& value) {
  const Tensor w = value.tensor.detach().contiguous();
  const int64_t channels = w.dim(0), each = channels == 0 ? 0 : w.numel() / channels;
  Filters filters{empty(w.shape(), {.dtype = kI8}), empty({channels}, {.dtype = kF32})};
  for (int64_t k = 0; k < channels; ++k) {
    const float* const row = w.data<float>() + k * each;
    float most = 0;
    for (int64_t i = 0; i < each; ++i) {
      LATHE_CHECK(ValueError, std::isfinite(row[i]), "quantize: @", value.name, " has the element ",
                  row[i], "; filters must be finite");
      most = std::max(most, std::fabs(row[i]));
    }
    float scale = most / 127;
    if (scale < FLT_MIN) scale = 1;  // the channel is 0, or as good as
    filters.scales.data<float>()[k] = scale;
    cpu::quantize_row(filters.integers.data<int8_t>() + k * each, row, scale, each);
  }
  return filters;
}

class Rewriting {
 public:
  Rewriting(const Graph& old, const std::vector<bool>& marked, const std::vector<Quantum>& quanta)
      : old_(old), quanta_(quanta), wanted_(wanted_integers(old, marked)) {
    out_.graph = old;  // with all values, whose numbers stay
    out_.graph.nodes.clear();
    out_.nodes.assign(old.nodes.size(), kNoValue);
    find_cuts(marked);
    integers_.assign(old.values.size(), kNoValue);
    scales_.assign(old.values.size(), 0);
    in_f32_.resize(old.values.size());
    for (size_t v = 0; v < old.values.size(); ++v)
      in_f32_[v] = old.values[v].origin != Origin::kNode;
  }

  Rewritten run(const std::vector<bool>& marked) && {
    for (size_t n = 0; n < old_.nodes.size(); ++n) {
      const Node& node = old_.nodes[n];
      if (is_inside_[n]) continue;
      if (marked[n]) {
        out_.nodes[n] = layer(n);
      } else if (moves_elements(node) && wanted(node.output) && has_integers(node.inputs[0])) {
        move(node);
      } else {
        Node copy = of_any_order(node);
        for (const int input : node.inputs) {
          if (input != kNoValue) f32(input);
        }
        in_f32_[at(node.output)] = true;
        out_.graph.nodes.push_back(std::move(copy));
      }
    }
    for (const int output : old_.outputs) f32(output);
    out_.values.resize(old_.values.size());
    for (size_t v = 0; v < out_.values.size(); ++v) {
      out_.values[v] = integers_[v] != kNoValue ? integers_[v]
                       : in_f32_[v]             ? static_cast<int>(v)
                                                : -1;
    }
    out_.scales = scales_;
    return std::move(out_);
  }

 private:
  /// A relu6 or the like that alone reads a layer, and whose result is wanted as integers, is part
  /// of the layer: integers end where it cuts.
  void find_cuts(const std::vector<bool>& marked) {
    const std::vector<int> uses = count_uses(old_);
    std::vector<int> layers(old_.values.size(), kNoValue);
    out_.results.resize(old_.nodes.size());
    cuts_.resize(old_.nodes.size());
    is_inside_.resize(old_.nodes.size());
    for (size_t n = 0; n < old_.nodes.size(); ++n) {
      const Node& node = old_.nodes[n];
      out_.results[n] = node.output;
      if (marked[n] && !ends_with_gelu(node)) layers[at(node.output)] = static_cast<int>(n);
      const double cut = upper_cut(node);
      if (cut == 0 || node.inputs[0] == kNoValue || !wanted(node.output)) continue;
      const int layer = layers[at(node.inputs[0])];
      if (layer == kNoValue || uses[at(node.inputs[0])] != 1) continue;
      out_.results[static_cast<size_t>(layer)] = node.output;
      cuts_[static_cast<size_t>(layer)] = cut;
      is_inside_[n] = true;
    }
  }

  static size_t at(int value) { return static_cast<size_t>(value); }
  bool wanted(int value) const { return wanted_[at(value)]; }
  bool has_integers(int value) const { return integers_[at(value)] != kNoValue; }
  const Value& old_value(int value) const { return old_.values[at(value)]; }

  /// A new value: `value` as integers.
  int add_integers(int value, DType dtype, double scale) {
    Type type = old_value(value).type;
    type.dtype = dtype;
    const std::string name = fresh_name(out_.graph, old_value(value).name + ".int8");
    integers_[at(value)] = out_.graph.add({name, Origin::kNode, std::move(type), Tensor()});
    scales_[at(value)] = scale;
    return integers_[at(value)];
  }

  /// The value as integers.
  int integers(int value, const std::string& place) {
    if (has_integers(value)) return integers_[at(value)];
    const Quantum quantum = quanta_[at(value)];
    const int result = add_integers(value, quantum.dtype, quantum.scale);
    out_.graph.nodes.push_back({op_named("quantize"),
                                {value},
                                {quantum.scale, std::string(name_of(quantum.dtype))},
                                result,
                                place});
    return result;
  }

  /// Sees to it that the value is there in f32, under its old number.
  void f32(int value) {
    if (in_f32_[at(value)]) return;
    in_f32_[at(value)] = true;
    out_.graph.nodes.push_back(
        {op_named("dequantize"), {integers_[at(value)]}, {scales_[at(value)]}, value, {}});
  }

  /// An op that moves elements, on integers.
  void move(const Node& node) {
    const int from = node.inputs[0], x = integers_[at(from)];
    Node moved = of_any_order(node);
    if (node.op->name == "max_pool2d") moved.op = op_named("quantized_max_pool2d");
    if (node.op->name == "pad") moved.attributes.back() = Size{};  // an integer
    moved.inputs = {x};
    moved.output =
        add_integers(node.output, out_.graph.values[at(x)].type.dtype, scales_[at(from)]);
    out_.graph.nodes.push_back(std::move(moved));
  }

  int add_tensor(const std::string& name, const Tensor& t) {
    return out_.graph.add({fresh_name(out_.graph, name), Origin::kBuffer, type_of(t), t});
  }

  /// A quantised layer.   → the number of its node
  int layer(size_t n) {
    const Node& node = old_.nodes[n];
    const int result = out_.results[n];
    const Value& filters = old_value(node.inputs[1]);
    const Filters made = quantized_filters(filters);
    const int x = integers(node.inputs[0], node.place);
    const int residual =
        residual_of(node) == kNoValue ? kNoValue : integers(residual_of(node), node.place);
    const int w = add_tensor(filters.name + ".int8", made.integers);
    const int w_scale = add_tensor(filters.name + ".scale", made.scales);
    const bool linear = !convolves(node);
    std::string activation;
    if (linear && !node.attributes.empty())
      activation = std::get<std::string>(attribute_of(node, "activation"));
    const bool is_gelu = ends_with_gelu(node);
    const bool has_relu =
        linear ? !activation.empty() && !is_gelu
               : node.op->name == "fused_conv2d" && std::get<bool>(attribute_of(node, "relu"));
    const bool relu = has_relu || cuts_[n] > 0;
    const bool as_integers = wanted(result) && !is_gelu;
    Quantum to = as_integers ? quanta_[at(result)] : Quantum{1, kF32};
    if (cuts_[n] > 0) to = {std::min(to.scale, cuts_[n] / 255), kU8};

    Node made_node{.op = op_named(linear ? "quantized_linear" : "quantized_conv2d"),
                   .inputs = {x, w, w_scale, node.inputs[2], residual},
                   .place = node.place};
    if (!linear) {
      for (const char* name : {"stride", "pad", "dilation", "groups"})
        made_node.attributes.push_back(attribute_of(node, name));
    }
    const double residual_scale = residual == kNoValue ? 1 : scales_[at(residual_of(node))];
    made_node.attributes.insert(made_node.attributes.end(),
                                {scales_[at(node.inputs[0])], residual_scale, to.scale,
                                 std::string(name_of(to.dtype)), relu});
    const int number = static_cast<int>(out_.graph.nodes.size());
    if (as_integers) {
      made_node.output = add_integers(result, to.dtype, to.scale);
      out_.graph.nodes.push_back(std::move(made_node));
      return number;
    }
    in_f32_[at(node.output)] = true;
    made_node.output = node.output;
    if (is_gelu) {
      const std::string name = fresh_name(out_.graph, old_value(node.output).name + ".sums");
      made_node.output =
          out_.graph.add({name, Origin::kNode, Type(old_value(node.output).type), Tensor()});
    }
    const int sums = made_node.output;
    out_.graph.nodes.push_back(std::move(made_node));
    if (is_gelu) {
      out_.graph.nodes.push_back(
          {op_named("gelu"), {sums}, {activation == "gelu_tanh"}, node.output, node.place});
    }
    return number;
  }

  const Graph& old_;
  const std::vector<Quantum>& quanta_;
  std::vector<bool> wanted_;
  std::vector<double> cuts_;     // of an old node: where the layer's result is cut, or 0
  std::vector<bool> is_inside_;  // of an old node: it is part of a layer
  Rewritten out_;
  std::vector<int> integers_;   // of an old value: its number as integers
  std::vector<double> scales_;  // of these
  std::vector<bool> in_f32_;    // of an old value: whether it is there under its old number
};

}  // namespace

bool is_layer(const Graph& graph, const Node& node) {
  if (!convolves(node) && node.op->name != "linear") return false;
  const auto value = [&](size_t i) { return &graph.values[static_cast<size_t>(node.inputs[i])]; };
  const auto is_tensor = [&](size_t i) {
    const Origin origin = value(i)->origin;
    return origin != Origin::kInput && origin != Origin::kNode && is_f32_on_cpu(value(i)->tensor);
  };
  if (node.inputs.size() < 3 || node.inputs[0] < 0 || node.inputs[1] < 0) return false;
  const bool convolution = convolves(node);
  const Type& x = value(0)->type;
  if (x.dtype != kF32 || (convolution && x.shape.size() != 4) || !is_tensor(1)) return false;
  if (node.inputs[2] >= 0 && !is_tensor(2)) return false;
  const Tensor& w = value(1)->tensor;
  return w.ndim() == (convolution ? 4 : 2) && w.dim(0) > 0 && w.numel() > 0 &&
         w.numel() / w.dim(0) <= kMostProducts;
}

std::vector<bool> wanted_integers(const Graph& graph, const std::vector<bool>& marked) {
  std::vector<bool> wanted(graph.values.size());
  const auto want = [&](int value) {
    if (value != kNoValue) wanted[static_cast<size_t>(value)] = true;
  };
  for (size_t n = graph.nodes.size(); n-- > 0;) {
    const Node& node = graph.nodes[n];
    if (marked[n]) {
      want(node.inputs[0]);
      want(residual_of(node));
    } else if (moves_elements(node) && wanted[static_cast<size_t>(node.output)]) {
      want(node.inputs[0]);
    }
  }
  return wanted;
}

Rewritten rewrite(const Graph& graph, const std::vector<bool>& marked,
                  const std::vector<Quantum>& quanta) {
  return Rewriting(graph, marked, quanta).run(marked);
}

}  // namespace lathe::jit
