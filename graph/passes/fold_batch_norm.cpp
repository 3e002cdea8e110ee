// fold_batch_norm: convolution, then batch norm in inference mode → convolution. Contract:
// graph/passes.h.
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "lathe/core/format.h"
#include "lathe/core/visit.h"
#include "lathe/graph/op_table.h"
#include "lathe/graph/passes.h"
#include "lathe/ops/creation.h"

namespace lathe::jit {

namespace {

constexpr int kNone = -1;

/// The inputs of any of the three forms of batch norm. Those that count batches have one more
/// behind them, an option tensor.
struct Norm {
  explicit Norm(const Node& node)
      : residual(node.op->inputs == 6 ? node.inputs[1] : kNone),
        relu(node.op->name != "batch_norm"),
        eps(std::get<double>(attribute_of(node, "eps"))) {
    const int* const statistics = node.inputs.data() + node.op->inputs - 4;
    weight = statistics[0], bias = statistics[1], mean = statistics[2], var = statistics[3];
  }

  int residual, weight = kNone, bias = kNone, mean = kNone, var = kNone;
  bool relu;
  double eps;
};

class Folding {
 public:
  explicit Folding(Graph& graph) : graph_(graph), uses_(count_uses(graph)) {}

  void run() {
    std::vector<Node> nodes = std::exchange(graph_.nodes, {});
    for (Node& node : nodes) {
      Node* const conv = convolution_before(node);
      if (conv == nullptr) {
        made_by_.resize(graph_.values.size(), kNone);
        made_by_[static_cast<size_t>(node.output)] = static_cast<int>(graph_.nodes.size());
        graph_.nodes.push_back(std::move(node));
      } else {
        fold(Node(*conv), node);
      }
    }
  }

 private:
  Type type(int value) const { return graph_.values[static_cast<size_t>(value)].type; }

  /// The convolution that goes into this node, or null.
  Node* convolution_before(const Node& node) {
    if (!node.op->name.starts_with("batch_norm")) return nullptr;
    const Norm norm(node);
    const auto x = static_cast<size_t>(node.inputs[0]);
    if (std::get<bool>(attribute_of(node, "training"))) return nullptr;
    if (norm.mean == kNone || norm.var == kNone) return nullptr;
    if (x >= made_by_.size() || made_by_[x] == kNone || uses_[x] != 1) return nullptr;
    Node& conv = graph_.nodes[static_cast<size_t>(made_by_[x])];
    if (conv.op->name != "conv2d" || conv.inputs[1] == kNone) return nullptr;
    const Type filters = type(conv.inputs[1]);
    // Half filters have a norm in f32.
    const bool fits =
        filters.shape.size() == 4 && compute_dtype(filters.dtype) == type(norm.var).dtype;
    return fits ? &conv : nullptr;
  }

  int constant(DType dtype, double value) {
    return graph_.add({fresh_name(graph_, base_ + ".eps"),
                       Origin::kConstant,
                       {dtype, {}},
                       full({}, value, {.dtype = dtype})});
  }

  /// A new node with a result of this type; its name has `suffix` behind that of the convolution.
  int call(const char* op, std::vector<int> inputs, Type result, const char* suffix,
           std::vector<std::string> names = {}, std::vector<Attribute> attributes = {}) {
    const int output =
        graph_.add({fresh_name(graph_, base_ + suffix), Origin::kNode, std::move(result), {}});
    graph_.nodes.push_back(
        {find_op(op, names), std::move(inputs), std::move(attributes), output, place_});
    return output;
  }

  /// The value that was cast to make this one, if it has this dtype; else kNone.
  int before_cast(DType dtype, int value) const {
    const int maker = made_by_[static_cast<size_t>(value)];
    if (maker == kNone) return kNone;
    const Node& node = graph_.nodes[static_cast<size_t>(maker)];
    const bool fits = node.op->name == "cast" && type(node.inputs[0]).dtype == dtype;
    return fits ? node.inputs[0] : kNone;
  }

  /// An input of the convolution as it is multiplied: half values as they were before their cast.
  int widened(DType dtype, int value) {
    if (type(value).dtype == dtype) return value;
    const int before = before_cast(dtype, value);
    return before == kNone ? as(dtype, value) : before;
  }

  /// The value in this dtype: itself or a cast of it.
  int as(DType dtype, int value) {
    Type result = type(value);
    if (result.dtype == dtype) return value;
    result.dtype = dtype;
    return call("cast", {value}, result, is_half(dtype) ? ".half" : ".wide", {"dtype"},
                {std::string(name_of(dtype))});
  }

  /// weight / sqrt(var + eps).
  int scale_of(const Norm& norm) {
    const Type channels = type(norm.var);
    const int moved = call("add", {norm.var, constant(channels.dtype, norm.eps)}, channels, ".var");
    const int inverse = call("rsqrt", {moved}, channels, ".invstd");
    return norm.weight == kNone ? inverse : call("mul", {inverse, norm.weight}, channels, ".scale");
  }

  /// (b - mean) * scale + bias.
  int bias_of(const Norm& norm, int b, int scale) {
    const Type channels = type(norm.mean);
    const int shift = b == kNone ? call("neg", {norm.mean}, channels, ".shift")
                                 : call("sub", {b, norm.mean}, channels, ".shift");
    const int scaled = call("mul", {shift, scale}, channels, ".shift_scaled");
    return norm.bias == kNone ? scaled : call("add", {scaled, norm.bias}, channels, ".bias");
  }

  /// The nodes in place of `conv`, which is removed, and of `node`.
  void fold(Node conv, const Node& node) {
    const Norm norm(node);
    graph_.nodes[static_cast<size_t>(made_by_[static_cast<size_t>(conv.output)])].op = nullptr;
    std::erase_if(graph_.nodes, [](const Node& n) { return n.op == nullptr; });
    note_makers();
    base_ = graph_.values[static_cast<size_t>(conv.output)].name;
    place_ = conv.place;

    const DType half = type(conv.inputs[1]).dtype, wide = compute_dtype(half);  // often the same
    const int plain = widened(wide, conv.inputs[1]);
    const int plain_bias = conv.inputs[2] == kNone ? kNone : widened(wide, conv.inputs[2]);
    const Type filters = type(plain);
    const Size channels = filters.shape[0];
    const int scale = scale_of(norm);
    const std::vector<Size> column = {channels, {0, 1}, {0, 1}, {0, 1}};
    const int factors =
        call("reshape", {scale}, {filters.dtype, column}, ".factors", {"shape"}, {column});
    const int weight = call("mul", {plain, factors}, filters, ".weight");
    const int bias = bias_of(norm, plain_bias, scale);
    conv.inputs[1] = as(half, weight);
    conv.inputs[2] = as(half, bias);

    int last = norm.relu ? conv.output : node.output;
    conv.output = last;
    graph_.nodes.push_back(std::move(conv));
    place_ = node.place;
    if (norm.residual != kNone) {
      last = call("add", {last, norm.residual}, type(last), ".sum");
    }
    if (norm.relu) {
      graph_.nodes.push_back({find_op("relu", {}), {last}, {}, node.output, place_});
    }
    note_makers();
  }

  void note_makers() {
    made_by_.assign(graph_.values.size(), kNone);
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      made_by_[static_cast<size_t>(graph_.nodes[n].output)] = static_cast<int>(n);
    }
  }

  Graph& graph_;
  std::vector<int> uses_;
  std::vector<int> made_by_;  // value → its node in graph_.nodes
  std::string base_, place_;  // of the convolution
};

}  // namespace

void fold_batch_norm(Graph& graph) { Folding(graph).run(); }

}  // namespace lathe::jit
