// use_channels_last: NHWC for the whole graph. Where a value is known to lie in that order already,
// nothing is added. Contract: graph/passes.h.
#include <algorithm>
#include <iterator>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lathe/graph/op_table.h"
#include "lathe/graph/passes.h"

namespace lathe::jit {

namespace {

/// The dimensions of a value in the order of its memory, the slowest first; empty where it is not
/// known or the value has gaps. A wrong one would cost a copy, not a result: ops read strides.
using Order = std::vector<size_t>;

Order nhwc_order() { return {0, 2, 3, 1}; }
constexpr size_t kResidualInput = 3;  // an input of fused_conv2d: x, w, bias, residual

bool is_convolution(const Node& node) { return calls_one_of(node, {"conv2d", "fused_conv2d"}); }

class ChannelsLast {
 public:
  explicit ChannelsLast(Graph& graph) : graph_(graph), orders_(graph.values.size()) {}

  void run() {
    for (Node& node : std::exchange(graph_.nodes, {})) {
      if (is_convolution(node) && type(node.inputs[0]).shape.size() == 4) {
        node.inputs[0] = in_nhwc(node.inputs[0]);
        if (node.op->name == "fused_conv2d" && node.inputs[kResidualInput] >= 0)
          node.inputs[kResidualInput] = in_nhwc(node.inputs[kResidualInput]);
      }
      set_order(node.output, order_behind(node));
      graph_.nodes.push_back(std::move(node));
    }
    if (ordered_.empty()) return;
    // What was row-major in the program may be NHWC now, which a view cannot show in any shape.
    for (Node& node : graph_.nodes) {
      if (node.op->name == "view") node.op = find_op("reshape", std::vector<std::string>{"shape"});
    }
  }

 private:
  /// Of an input that is missing: nothing is known.
  Type type(int value) const {
    return value < 0 ? Type() : graph_.values[static_cast<size_t>(value)].type;
  }
  Order order(int value) const { return value < 0 ? Order() : orders_[static_cast<size_t>(value)]; }
  void set_order(int value, Order order) {
    orders_.resize(graph_.values.size());
    orders_[static_cast<size_t>(value)] = std::move(order);
  }

  /// The value, brought into NHWC once if it may lie otherwise.
  int in_nhwc(int value) {
    if (order(value) == nhwc_order()) return value;
    const auto [at, is_new] = ordered_.emplace(value, -1);
    if (!is_new) return at->second;
    static const std::vector<std::string> attributes = {"format"};
    const Value& image = graph_.values[static_cast<size_t>(value)];
    at->second = graph_.add(
        {fresh_name(graph_, image.name + ".nhwc"), Origin::kNode, Type(image.type), Tensor()});
    graph_.nodes.push_back({find_op("contiguous", attributes),
                            {value},
                            {std::string("channels_last")},
                            at->second,
                            {}});
    set_order(at->second, nhwc_order());
    return at->second;
  }

  Order row_major(int value) const {
    Order order(type(value).shape.size());
    for (size_t d = 0; d < order.size(); ++d) order[d] = d;
    return order;
  }

  /// A permute or transpose, whose result has dimension dims[d] of x as its dimension d.
  Order moved(const Order& x, const std::vector<size_t>& dims) const {
    Order order;
    for (const size_t d : x) {
      const auto at = std::find(dims.begin(), dims.end(), d);
      if (at == dims.end()) return {};
      order.push_back(static_cast<size_t>(at - dims.begin()));
    }
    return order;
  }

  Order permuted(const Node& node) const {
    const int64_t ndim = std::ssize(type(node.inputs[0]).shape);
    std::vector<size_t> to;
    for (const Size& d : std::get<std::vector<Size>>(node.attributes[0]))
      to.push_back(static_cast<size_t>(d.fixed < 0 ? d.fixed + ndim : d.fixed));
    return moved(order(node.inputs[0]), to);
  }

  Order transposed(const Node& node) const {
    const int64_t ndim = std::ssize(type(node.inputs[0]).shape);
    Order to = row_major(node.inputs[0]);
    const auto at = [&](size_t i) {
      const int64_t d = std::get<Size>(node.attributes[i]).fixed;
      return static_cast<size_t>(d < 0 ? d + ndim : d);
    };
    if (std::max(at(0), at(1)) < to.size()) std::swap(to[at(0)], to[at(1)]);
    return moved(order(node.inputs[0]), to);
  }

  /// True with one pixel or one channel. Where ops keep the order, such a value gives row-major
  /// strides, which a convolution would go on with.
  bool fits_both(int value) const {
    const std::vector<Size> shape = type(value).shape;
    const Size one{0, 1};
    return shape.size() == 4 && (shape[1] == one || (shape[2] == one && shape[3] == one));
  }

  /// Of an op that keeps the order of x.
  Order kept(int x) const { return fits_both(x) ? Order() : order(x); }

  /// A fused_conv2d may be several ops, the last of which keeps the order of a convolution.
  Order convolved(const Node& node) const {
    if (type(node.output).shape.size() != 4) return {};
    return node.op->name == "fused_conv2d" && fits_both(node.output) ? Order() : nhwc_order();
  }

  /// Of a pointwise op: that of the first input that is not stretched.
  Order of_whole_input(const Node& node) const {
    for (const int input : node.inputs) {
      if (input >= 0 && type(input).shape == type(node.output).shape) return kept(input);
    }
    return {};
  }

  Order order_behind(const Node& node) const {
    const std::string& op = node.op->name;
    if (is_convolution(node)) return convolved(node);
    if (op == "contiguous") {
      return node.attributes[0] == Attribute(std::string("channels_last")) ? nhwc_order()
                                                                           : row_major(node.output);
    }
    if (calls_one_of(node, {"linear", "mlp", "layer_norm"})) return row_major(node.output);
    if (op.starts_with("batch_norm") ||
        calls_one_of(node, {"max_pool2d", "avg_pool2d", "adaptive_avg_pool2d"}))
      return kept(node.inputs[0]);
    if (op == "permute") return permuted(node);
    if (op == "transpose") return transposed(node);
    if (op == "cat") {
      const bool nhwc = std::ranges::all_of(
          node.inputs, [&](int input) { return input >= 0 && kept(input) == nhwc_order(); });
      return nhwc && !node.inputs.empty() ? nhwc_order() : Order();
    }
    return node.op->pointwise ? of_whole_input(node) : Order();
  }

  Graph& graph_;
  std::vector<Order> orders_;             // of values
  std::unordered_map<int, int> ordered_;  // value → the same in NHWC
};

}  // namespace

void use_channels_last(Graph& graph) { ChannelsLast(graph).run(); }

}  // namespace lathe::jit
