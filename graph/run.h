// Graph::run, and what it tells of groups of pointwise ops.
#pragma once

#include <string>
#include <vector>

#include "lathe/graph/graph.h"

namespace lathe::jit {

/// Graph::run(given). `ways`, if given, becomes by the number of a group's first node how the group
/// ran on a GPU (run_pointwise(): `way`); "" for other nodes, and on the CPU.
Tensors run_graph(const Graph& graph, const Tensors& given,
                  std::vector<std::string>* ways = nullptr);

}  // namespace lathe::jit
