// Inliner: gives the values of all graphs numbers in one, and each node its scope.
#include "lathe/graph/pt2/pt2_inline.h"

#include <utility>

#include "lathe/core/error.h"
#include "lathe/core/format.h"
#include "lathe/core/formats/safetensors_header.h"

namespace lathe::jit::pt2 {

namespace {

using safetensors::in_quotes;

// (device, dtype, enabled, cache_enabled, graph, operands…)
constexpr std::string_view kAutocast = "torch.ops.higher_order.wrap_with_autocast";
// (enabled, graph, operands…)
constexpr std::string_view kGradients = "torch.ops.higher_order.wrap_with_set_grad_enabled";

/// The value of an argument; -1 if it is none.
int number_of(const Argument& argument) {
  if (const auto* const value = std::get_if<Value>(&argument)) return value->number;
  const auto* const integer = std::get_if<Integer>(&argument);
  return integer == nullptr ? -1 : integer->value.number;
}

class Inliner {
 public:
  explicit Inliner(const std::string& file) : file_(file) {}

  Graph run(Graph graph) {
    std::vector<int> numbers(graph.names.size(), -1);
    for (Value& input : graph.inputs) define(input, graph, numbers);
    out_.inputs = graph.inputs;
    add_nodes(graph, numbers, 0);
    for (const Value output : graph.outputs) out_.outputs.push_back({numbers[at(output)]});
    return std::move(out_);
  }

 private:
  static size_t at(Value value) { return static_cast<size_t>(value.number); }

  /// Gives a value of `from` its number in the result.
  void define(Value& value, Graph& from, std::vector<int>& numbers) {
    if (value.number < 0) return;
    int& number = numbers[at(value)];
    number = static_cast<int>(out_.names.size());
    out_.names.push_back(std::move(from.names[at(value)]));
    value.number = number;
  }

  void add_nodes(Graph& from, std::vector<int>& numbers, int scope) {
    for (Node& node : from.nodes) {
      for (NamedArgument& argument : node.inputs) {
        for_values(argument.value, [&](Value& value, bool) { value.number = numbers[at(value)]; });
      }
      if (is_inlined(node)) {
        add_call(node, numbers, scope);
        continue;
      }
      for (const NamedArgument& argument : node.inputs) {
        if (std::holds_alternative<SubGraph>(argument.value)) refuse(node, "takes a sub-graph");
      }
      for (Value& output : node.outputs) define(output, from, numbers);
      node.scope = scope;
      out_.nodes.push_back(std::move(node));
    }
  }

  /// `numbers`: of the graph that makes the call.
  void add_call(Node& node, std::vector<int>& numbers, int outer) {
    const bool is_autocast = node.target == kAutocast;
    const size_t place = is_autocast ? 4 : 1;  // of the graph
    const auto argument = [&](size_t i) -> Argument& {
      if (i >= node.inputs.size()) refuse(node, "has too few arguments");
      return node.inputs[i].value;
    };
    const auto* const on = std::get_if<bool>(&argument(place == 4 ? 2 : 0));
    const auto* const sub = std::get_if<SubGraph>(&argument(place));
    if (on == nullptr || sub == nullptr) refuse(node, "has arguments of the wrong types");
    Scope scope{.kind = Scope::Kind::kGradients, .on = *on, .outer = outer};
    if (is_autocast) {
      scope.kind = Scope::Kind::kAutocast;
      if (const auto* const dtype = std::get_if<DType>(&argument(1))) scope.dtype = *dtype;
      scope.on = *on && is_half(scope.dtype);  // in f32 nothing is cast
    }
    Graph& inner = *sub->graph;
    const size_t operands = node.inputs.size() - place - 1;
    if (operands != inner.inputs.size()) {
      refuse(node, concat("gives ", operands, " operands to a sub-graph of ", inner.inputs.size(),
                          " inputs"));
    }
    std::vector<int> numbers_inside(inner.names.size(), -1);
    for (size_t i = 0; i < operands; ++i) {
      const int number = number_of(argument(place + 1 + i));
      if (number < 0) refuse(node, "has an operand that is neither a tensor nor a symbolic size");
      numbers_inside[at(inner.inputs[i])] = number;
    }
    out_.scopes.push_back(scope);
    add_nodes(inner, numbers_inside, static_cast<int>(out_.scopes.size()) - 1);
    if (node.outputs.size() != inner.outputs.size()) {
      refuse(node, concat("takes ", node.outputs.size(), " results from a sub-graph of ",
                          inner.outputs.size()));
    }
    for (size_t i = 0; i < inner.outputs.size(); ++i) {
      if (node.outputs[i].number < 0) continue;
      numbers[at(node.outputs[i])] = numbers_inside[at(inner.outputs[i])];
    }
  }

  [[noreturn]] void refuse(const Node& node, const std::string& why) const {
    LATHE_FAIL(DataError, file_, ": node ", in_quotes(node.name), " (", in_quotes(node.target),
               ") ", why);
  }

  const std::string& file_;
  Graph out_;
};

}  // namespace

bool is_inlined(const Node& node) { return node.target == kAutocast || node.target == kGradients; }

Graph inlined(Graph graph, const std::string& file) { return Inliner(file).run(std::move(graph)); }

}  // namespace lathe::jit::pt2
