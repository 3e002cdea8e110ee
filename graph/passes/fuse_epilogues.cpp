// fuse_epilogues: what follows a convolution or a linear layer goes into it. Contract:
// graph/passes.h.
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "lathe/graph/op_table.h"
#include "lathe/graph/passes.h"

namespace lathe::jit {

namespace {

constexpr int kMissing = -1;
constexpr size_t kResidual = 3;  // an input of fused_conv2d: x, w, bias, residual

const Op* fused_conv2d_op() {
  static const std::vector<std::string> names = {"stride",           "pad", "dilation", "groups",
                                                 "constant_filters", "relu"};
  return find_op("fused_conv2d", names);
}
const Op* activated_linear_op() {
  static const std::vector<std::string> names = {"activation", "activate_last"};
  return find_op("linear", names);
}

/// A convolution as fused_conv2d.
Node fused(Node conv) {
  if (conv.op == fused_conv2d_op()) return conv;
  conv.op = fused_conv2d_op();
  conv.inputs.push_back(kMissing);
  conv.attributes.insert(conv.attributes.end(), {false, false});
  return conv;
}

/// The word of linear's attribute for this node, or "".
std::string activation_of(const Node& node) {
  if (node.op->name == "relu") return "relu";
  if (node.op->name != "gelu") return "";
  return std::get<bool>(node.attributes[0]) ? "gelu_tanh" : "gelu";
}

class Fusing {
 public:
  explicit Fusing(Graph& graph) : graph_(graph), uses_(count_uses(graph)) {}

  void run() {
    std::vector<Node> nodes = std::exchange(graph_.nodes, {});
    made_by_.assign(graph_.values.size(), kMissing);
    for (Node& node : nodes) {
      if (fuse_sum(node) || fuse_activation(node)) continue;
      put(std::move(node));
    }
    std::erase_if(graph_.nodes, [](const Node& node) { return node.op == nullptr; });
  }

 private:
  void put(Node node) {
    made_by_[static_cast<size_t>(node.output)] = static_cast<int>(graph_.nodes.size());
    graph_.nodes.push_back(std::move(node));
  }

  const Type& type(int value) const { return graph_.values[static_cast<size_t>(value)].type; }

  /// The node that makes `value` for one reader alone, or null.
  Node* only_maker(int value) {
    if (value == kMissing || uses_[static_cast<size_t>(value)] != 1) return nullptr;
    const int at = made_by_[static_cast<size_t>(value)];
    return at == kMissing ? nullptr : &graph_.nodes[static_cast<size_t>(at)];
  }

  /// A convolution that a relu can go into, or null.
  Node* convolution_of(int value) {
    Node* const node = only_maker(value);
    if (node == nullptr) return nullptr;
    if (node->op->name == "conv2d") return node;
    const bool open = node->op == fused_conv2d_op() && !std::get<bool>(node->attributes.back());
    return open ? node : nullptr;
  }
  /// One that a sum can go into, too, or null.
  Node* convolution_without_residual(int value) {
    Node* const node = convolution_of(value);
    if (node == nullptr || node->op->name == "conv2d") return node;
    return node->inputs[kResidual] == kMissing ? node : nullptr;
  }

  /// Rows of the filters: a 1x1 convolution does not become faster by what it takes in.
  int64_t filter_rows(const Node& conv) const {
    if (conv.inputs[1] == kMissing) return 0;
    const std::vector<Size>& shape = type(conv.inputs[1]).shape;
    return shape.size() == 4 ? shape[2].fixed : 0;
  }

  /// Puts `node`, made of the convolution or linear layer `part`, in place of that one and of
  /// `last`, whose result it has.
  void replace(Node* part, Node node, const Node& last) {
    part->op = nullptr;
    node.output = last.output;
    put(std::move(node));
  }

  bool fuse_sum(const Node& node) {
    if (node.op->name != "add" || node.inputs[0] == node.inputs[1]) return false;
    Node* best = nullptr;
    int residual = kMissing;
    for (const size_t side : {size_t{0}, size_t{1}}) {
      Node* const conv = convolution_without_residual(node.inputs[side]);
      const int other = node.inputs[1 - side];
      if (conv == nullptr || other == kMissing) continue;
      if (type(other) != type(node.output) || type(node.inputs[side]) != type(node.output)) {
        continue;
      }
      if (best != nullptr && filter_rows(*conv) <= filter_rows(*best)) continue;
      best = conv;
      residual = other;
    }
    if (best == nullptr) return false;
    Node conv = fused(*best);
    conv.inputs[kResidual] = residual;
    replace(best, std::move(conv), node);
    return true;
  }

  bool fuse_activation(const Node& node) {
    const std::string activation = activation_of(node);
    if (activation.empty()) return false;
    Node* const conv = activation == "relu" ? convolution_of(node.inputs[0]) : nullptr;
    if (conv != nullptr) {
      Node with_relu = fused(*conv);
      with_relu.attributes.back() = true;
      replace(conv, std::move(with_relu), node);
      return true;
    }
    Node* const linear = only_maker(node.inputs[0]);
    if (linear == nullptr || linear->op->name != "linear" || !linear->attributes.empty()) {
      return false;
    }
    Node activated = *linear;
    activated.op = activated_linear_op();
    activated.attributes = {activation, true};
    replace(linear, std::move(activated), node);
    return true;
  }

  Graph& graph_;
  std::vector<int> uses_;
  std::vector<int> made_by_;  // value → its node in graph_.nodes
};

}  // namespace

void fuse_epilogues(Graph& graph) { Fusing(graph).run(); }

}  // namespace lathe::jit
