// fold_constants: runs the nodes that need no input. Contract: graph/passes.h.
#include <algorithm>
#include <string>
#include <utility>

#include "lathe/autograd/grad_mode.h"
#include "lathe/core/error.h"
#include "lathe/graph/op_table.h"
#include "lathe/graph/passes.h"
#include "lathe/graph/work.h"

namespace lathe::jit {

namespace {

bool depends_on_batch(const Attribute& attribute) {
  if (const auto* size = std::get_if<Size>(&attribute)) return size->of_batch != 0;
  const auto* list = std::get_if<std::vector<Size>>(&attribute);
  return list != nullptr && std::any_of(list->begin(), list->end(),
                                        [](const Size& size) { return size.of_batch != 0; });
}

}  // namespace

void fold_constants(Graph& original) {
  const NoGrad off;
  Graph graph = original;  // an op may throw
  std::vector<Node> kept;
  const std::vector<bool> needed = needed_nodes(graph), written = written_values(graph);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    Node& node = graph.nodes[n];
    Tensors in;
    bool known = needed[n] && !node.op->has_effects() && !reads_any(node, written) &&
                 std::none_of(node.attributes.begin(), node.attributes.end(), depends_on_batch);
    for (const int input : node.inputs) {
      in.push_back(input < 0 ? Tensor() : graph.values[static_cast<size_t>(input)].tensor);
      known &= input < 0 || in.back().defined();
    }
    if (!known) {
      kept.push_back(std::move(node));
      continue;
    }
    Value& value = graph.values[static_cast<size_t>(node.output)];
    const Tensor y = node.op->call(in, node.attributes).detach();
    LATHE_CHECK(ShapeError, type_of(y) == value.type, "fold_constants: %", value.name, " = ",
                node.op->name, " must be ", to_text(value.type), " (got: ", y, ")");
    value.tensor = y;
    value.origin = Origin::kConstant;
    value.name = fresh_name(graph, "folded." + value.name);  // @ in place of %
  }
  graph.nodes = std::move(kept);
  original = std::move(graph);
}

}  // namespace lathe::jit
