// remove_dead_code: nodes from the last to the first, then values get new numbers. Contract:
// graph/passes.h.
#include <algorithm>
#include <utility>

#include "lathe/graph/op_table.h"
#include "lathe/graph/passes.h"

namespace lathe::jit {

void remove_dead_code(Graph& graph) {
  std::vector<bool> needed(graph.values.size());
  const auto need = [&](const std::vector<int>& numbers) {
    for (const int number : numbers) {
      if (number >= 0) needed[static_cast<size_t>(number)] = true;
    }
  };
  need(graph.outputs);
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    if (node->op->has_effects()) needed[static_cast<size_t>(node->output)] = true;
    if (needed[static_cast<size_t>(node->output)]) need(node->inputs);
  }
  std::erase_if(graph.nodes,
                [&](const Node& node) { return !needed[static_cast<size_t>(node.output)]; });
  need(graph.inputs);

  std::vector<int> numbers(graph.values.size(), -1);
  std::vector<Value> values;
  for (size_t i = 0; i < graph.values.size(); ++i) {
    if (!needed[i]) continue;
    numbers[i] = static_cast<int>(values.size());
    values.push_back(std::move(graph.values[i]));
  }
  graph.values = std::move(values);
  const auto renumber = [&](int& number) {
    if (number >= 0) number = numbers[static_cast<size_t>(number)];
  };
  for (Node& node : graph.nodes) {
    std::for_each(node.inputs.begin(), node.inputs.end(), renumber);
    renumber(node.output);
  }
  std::for_each(graph.inputs.begin(), graph.inputs.end(), renumber);
  std::for_each(graph.outputs.begin(), graph.outputs.end(), renumber);
}

}  // namespace lathe::jit
