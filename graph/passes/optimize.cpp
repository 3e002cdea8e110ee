// optimize_for_inference: the passes in their order, and what is known once they are done.
// Contract: graph/passes.h.
#include "lathe/graph/op_table.h"
#include "lathe/graph/passes.h"

namespace lathe::jit {

namespace {

/// Tells each fused_conv2d whose filters are a tensor of the program that they stay the same.
void mark_constant_filters(Graph& graph) {
  for (Node& node : graph.nodes) {
    if (node.op->name != "fused_conv2d" || node.inputs[1] < 0) continue;
    const Origin origin = graph.values[static_cast<size_t>(node.inputs[1])].origin;
    if (origin == Origin::kInput || origin == Origin::kNode) continue;
    size_t at = 0;
    while (node.op->attributes[at].name != "constant_filters") ++at;
    node.attributes[at] = true;
  }
}

}  // namespace

void optimize_for_inference(Graph& graph) {
  remove_dead_code(graph);  // which would be folded, too
  fold_batch_norm(graph);
  fold_constants(graph);
  merge_common_subexpressions(graph);
  fuse_epilogues(graph);
  use_channels_last(graph);
  mark_constant_filters(graph);
  remove_dead_code(graph);
  for (Value& value : graph.values) {
    if (value.tensor.defined()) value.tensor = value.tensor.detach();
  }
}

}  // namespace lathe::jit
