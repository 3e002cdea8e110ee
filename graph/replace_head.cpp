// replace_head: from the result back to the last layer, then forward again with other sizes.
// graph/pt2/pt2_head.h does the same for programs of PyTorch.
#include "lathe/graph/replace_head.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "lathe/core/error.h"
#include "lathe/core/format.h"
#include "lathe/graph/op_table.h"
#include "lathe/nn/init.h"

namespace lathe::jit {

namespace {

/// What may stand between the last layer and the result. None of them looks at the number of
/// classes; views do, in their shapes.
constexpr std::string_view kPassed[] = {"adaptive_avg_pool2d",
                                        "avg_pool2d",
                                        "cast",
                                        "clone",
                                        "contiguous",
                                        "dropout",
                                        "flatten",
                                        "gelu",
                                        "log_softmax",
                                        "max_pool2d",
                                        "mean",
                                        "permute",
                                        "relu",
                                        "reshape",
                                        "sigmoid",
                                        "softmax",
                                        "squeeze",
                                        "transpose",
                                        "unsqueeze",
                                        "view"};

/// Those that move dimensions to other places, or remove some.
constexpr std::string_view kMoving[] = {"flatten", "mean",      "permute",   "reshape",
                                        "squeeze", "transpose", "unsqueeze", "view"};

bool makes_view(const Node& node) { return node.op->name == "view" || node.op->name == "reshape"; }

[[noreturn]] void refuse(const std::string& why) { LATHE_FAIL(ValueError, "replace_head: ", why); }

class HeadReplacement {
 public:
  HeadReplacement(const Graph& graph, int64_t classes)
      : graph_(graph), classes_{0, classes}, uses_(count_uses(graph)) {}

  std::vector<std::string> parameters() {
    find();
    std::vector<std::string> names = {value(weight_).name};
    if (bias_ >= 0) names.push_back(value(bias_).name);
    return names;
  }

  Graph replaced() {
    find();
    const Type weight = value(weight_).type;
    old_ = weight.shape[row_];
    const bool has_bias = bias_ >= 0;
    if (has_bias && value(bias_).type.shape != std::vector<Size>{old_})
      refuse(concat("@", value(bias_).name, " is ", to_text(value(bias_).type), ", no bias of @",
                    value(weight_).name, " ", to_text(weight)));
    const int64_t fan_in = value(weight_).tensor.numel() / std::max<int64_t>(old_.fixed, 1);
    draw(weight_, row_, fan_in);
    if (has_bias) draw(bias_, 0, fan_in);
    const Node& head = graph_.nodes[chain_.back()];
    std::vector<Size> before = value(head.output).type.shape;
    size_t dim = head.op->name == "conv2d" ? 1 : before.size() - 1;
    if (before.size() < 2 || before[dim] != old_)
      refuse(concat("its last layer gives ", to_text(value(head.output).type), ", not ", old_.fixed,
                    " classes"));
    resize(head.output, dim);
    for (auto at = chain_.rbegin() + 1; at != chain_.rend(); ++at) {
      Node& node = graph_.nodes[*at];
      const std::vector<Size> now = value(node.output).type.shape;
      if (std::ranges::find(kMoving, node.op->name) != std::end(kMoving))
        dim = moved(dim, before, now, node);
      if (dim >= now.size() || now[dim] != old_)
        refuse(concat("the result of \"", node.op->name, "\" has no size of ", old_.fixed,
                      " in dimension ", dim));
      if (makes_view(node)) change_view(node, dim);
      resize(node.output, dim);
      before = now;
    }
    return std::move(graph_);
  }

 private:
  Value& value(int number) { return graph_.values[static_cast<size_t>(number)]; }

  /// Sets chain_, weight_, row_ and bias_.
  void find() {
    if (graph_.outputs.size() != 1) refuse(concat("it has ", graph_.outputs.size(), " results"));
    for (int at = graph_.outputs[0];;) {
      const auto maker = std::ranges::find(graph_.nodes, at, &Node::output);
      if (maker == graph_.nodes.end()) refuse("no layer makes its result");
      if (uses_[static_cast<size_t>(at)] != 1)
        refuse(concat("%", value(at).name, " is used ", uses_[static_cast<size_t>(at)], " times"));
      chain_.push_back(static_cast<size_t>(maker - graph_.nodes.begin()));
      if (is_head(*maker)) return;
      at = before(*maker);
    }
  }

  bool is_head(const Node& node) {
    const std::string& op = node.op->name;
    const bool is_product = op == "matmul";
    if (!is_product && op != "linear" && op != "conv2d") return false;
    const size_t ndim = op == "conv2d" ? 4 : 2;
    const Attribute* const groups = find_attribute(node, "groups");
    if (groups != nullptr && *groups != Attribute(Size{0, 1}))
      refuse("its last convolution has groups");
    weight_ = own(node.inputs[1]);
    row_ = is_product ? 1 : 0;
    if (value(weight_).type.shape.size() != ndim)
      refuse(concat("@", value(weight_).name, " is ", to_text(value(weight_).type)));
    const int bias = !is_product && node.inputs.size() > 2 ? node.inputs[2] : -1;
    if (bias >= 0 && bias_ >= 0) refuse("behind its last layer a parameter is added");
    if (bias >= 0) bias_ = own(bias);
    return true;
  }

  /// A parameter of this layer alone.
  int own(int number) {
    const Value& found = value(number);
    if (found.origin != Origin::kParameter || !found.tensor.defined())
      refuse("the weight of its last layer is no parameter, but computed");
    if (uses_[static_cast<size_t>(number)] != 1)
      refuse(concat("@", found.name, " is used ", uses_[static_cast<size_t>(number)], " times"));
    return number;
  }

  /// What a node between the last layer and the result changes. The bias of a product is added.
  int before(const Node& node) {
    std::vector<int> tensors;
    for (const int input : node.inputs) {
      if (input >= 0) tensors.push_back(input);
    }
    if (node.op->name == "add" && tensors.size() == 2 && bias_ < 0) {
      for (const int at : {0, 1}) {
        const Value& added = value(tensors[static_cast<size_t>(at)]);
        if (added.origin != Origin::kParameter) continue;
        bias_ = own(tensors[static_cast<size_t>(at)]);
        return tensors[static_cast<size_t>(1 - at)];
      }
    }
    const bool is_passed = std::ranges::find(kPassed, node.op->name) != std::end(kPassed);
    if (!is_passed || tensors.size() != 1)
      refuse(concat("its result comes from \"", node.op->name,
                    "\", not from a linear layer or convolution"));
    return tensors[0];
  }

  void draw(int number, size_t dim, int64_t fan_in) {
    Value& parameter = value(number);
    Shape shape = parameter.tensor.shape();
    shape[dim] = classes_.fixed;
    parameter.type.shape[dim] = classes_;
    parameter.tensor = nn::init::uniform_fan_in(shape, fan_in)
                           .to(parameter.tensor.device(), parameter.tensor.dtype());
  }

  void resize(int number, size_t dim) { value(number).type.shape[dim] = classes_; }

  /// The dimension of the classes behind a node that may move it.
  size_t moved(size_t dim, const std::vector<Size>& before, const std::vector<Size>& now,
               const Node& node) const {
    if (makes_view(node) && now == before) return dim;
    if (classes_.fixed == 1 && node.op->name == "squeeze")
      refuse("with one class, \"squeeze\" may remove the dimension of the classes");
    const size_t from = only_dim(before, "what goes into", node);
    const size_t to = only_dim(now, "the result of", node);
    if (makes_view(node) && !keeps_apart(before, from, now, to))
      refuse(
          concat("\"", node.op->name, "\" merges the dimension of the classes with another one"));
    return to;
  }

  /// Whether a view that takes dimension `from` to `to` keeps what lies before or behind it.
  static bool keeps_apart(const std::vector<Size>& before, size_t from,
                          const std::vector<Size>& now, size_t to) {
    const auto sizes = [](auto first, auto end) {
      std::vector<Size> out;
      std::copy_if(first, end, std::back_inserter(out), [](const Size& size) {
        return size != Size{0, 1};
      });
      return out;
    };
    const auto at = [](const std::vector<Size>& all, size_t dim) {
      return all.begin() + static_cast<std::ptrdiff_t>(dim);
    };
    return sizes(before.begin(), at(before, from)) == sizes(now.begin(), at(now, to)) ||
           sizes(at(before, from + 1), before.end()) == sizes(at(now, to + 1), now.end());
  }

  /// The only dimension that has the size of the classes.
  size_t only_dim(const std::vector<Size>& shape, std::string_view what, const Node& node) const {
    const auto count = std::ranges::count(shape, old_);
    if (count != 1)
      refuse(concat(what, " \"", node.op->name, "\" has ", count, " sizes of ", old_.fixed,
                    ", as many as there are classes"));
    return static_cast<size_t>(std::ranges::find(shape, old_) - shape.begin());
  }

  void change_view(Node& node, size_t dim) const {
    for (Attribute& attribute : node.attributes) {
      auto* const shape = std::get_if<std::vector<Size>>(&attribute);
      if (shape != nullptr && dim < shape->size() && (*shape)[dim] == old_)
        (*shape)[dim] = classes_;
    }
  }

  Graph graph_;
  Size classes_, old_;
  std::vector<int> uses_;
  std::vector<size_t> chain_;  // the nodes from the one that makes the result to the last layer
  int weight_ = -1, bias_ = -1;
  size_t row_ = 0;  // the dimension of the weight that counts the classes
};

}  // namespace

void replace_head(Graph& graph, int64_t classes) {
  LATHE_CHECK(ValueError, classes > 0, "replace_head: classes must be positive, got ", classes);
  graph = HeadReplacement(graph, classes).replaced();
}

std::vector<std::string> head_parameters(const Graph& graph) try {
  return HeadReplacement(graph, 1).parameters();
} catch (const ValueError&) {
  return {};
}

}  // namespace lathe::jit
