// optimize_for_inference: the passes in their order.
#include "lathe/graph/passes.h"

namespace lathe::jit {

void optimize_for_inference(Graph& graph) {
  fold_batch_norm(graph);
  fold_constants(graph);
  merge_common_subexpressions(graph);
  fuse_epilogues(graph);
  use_channels_last(graph);
  remove_dead_code(graph);
  for (Value& value : graph.values) {
    if (value.tensor.defined()) value.tensor = value.tensor.detach();
  }
}

}  // namespace lathe::jit
