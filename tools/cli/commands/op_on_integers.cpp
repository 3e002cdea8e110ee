// Follows what is computed from the graph's own tensors alone.
#include "lathe/tools/cli/commands/op_on_integers.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "lathe/graph/op_table.h"

namespace lathe::cli {

std::string op_on_integers(const jit::Graph& graph) {
  // By value. `own`: its elements, if it is a tensor of the graph or computed from such tensors
  // alone, else 0. `integers`: those of the 8-bit weights that it is or is computed from, else 0.
  std::vector<int64_t> own(graph.values.size(), 0), integers = own;
  std::vector<bool> is_mask(graph.values.size(), false);
  for (size_t i = 0; i < graph.values.size(); ++i) {
    const Tensor& tensor = graph.values[i].tensor;
    if (!tensor.defined()) continue;
    own[i] = tensor.numel();
    const bool is_integer = tensor.dtype() == kI8 || tensor.dtype() == kU8;
    if (!is_integer || tensor.ndim() < 2) continue;
    integers[i] = tensor.numel();
    is_mask[i] = std::ranges::all_of(tensor.to_vector<int64_t>(),
                                     [](int64_t v) { return v == 0 || v == 1; });
  }
  for (const jit::Node& node : graph.nodes) {
    int64_t most = 0, most_own = 0;
    bool all_own = true;    // nothing depends on the graph's input
    bool all_small = true;  // what comes beside the weights is no larger: scales
    bool mask = false;
    for (const int i : node.inputs) {
      if (i < 0) continue;
      const auto at = static_cast<size_t>(i);
      mask = mask || is_mask[at];
      most = std::max(most, integers[at]);
      most_own = std::max(most_own, own[at]);
      all_own = all_own && own[at] > 0;
    }
    for (const int i : node.inputs) {
      if (i >= 0 && integers[static_cast<size_t>(i)] == 0)
        all_small = all_small && own[static_cast<size_t>(i)] <= most - (mask ? 1 : 0);
    }
    const std::string_view name = node.op->name;
    for (const std::string_view product : {"conv", "linear", "matmul"}) {
      if (most > 0 && !all_own && name.find(product) != name.npos) return std::string(name);
    }
    if (all_own) own[static_cast<size_t>(node.output)] = most_own;
    if (all_own && all_small) integers[static_cast<size_t>(node.output)] = most;
    is_mask[static_cast<size_t>(node.output)] = mask;
  }
  return "";
}

}  // namespace lathe::cli
