// Sub-graphs become parts of the graph that calls them, so that modes, norms, counters and writes
// in place are seen in one place. Internal: program.h is what others use.
#pragma once

#include <string>

#include "lathe/graph/pt2/pt2_schema.h"

namespace lathe::jit::pt2 {

/// The graph with the nodes of its sub-graphs in place of the calls that run them.
/// throws: DataError that names `file` and the node: a sub-graph for another call than torch's
/// autocast and set_grad_enabled, and arguments that do not fit it.
Graph inlined(Graph graph, const std::string& file);

/// True if inlined() replaces the node's call.
bool is_inlined(const Node& node);

}  // namespace lathe::jit::pt2
