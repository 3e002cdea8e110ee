// Another last layer for a graph that is fine-tuned.
//   jit::Graph graph = jit::load_onnx_module("resnet18.onnx").training_graph();
//   jit::replace_head(graph, 37);
//   jit::GraphModule model(graph);
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lathe/core/config.h"
#include "lathe/graph/graph.h"

namespace lathe::jit {

/// Gives the graph a new last layer for `classes` classes. The last layer is the linear layer,
/// product of matrices or convolution from whose result the graph's only result comes by pooling,
/// activations and views alone. The new weight and bias are drawn from U(±1/sqrt(fan_in)) and have
/// the names of the old ones. All other tensors stay. If it throws, nothing has changed.
/// throws: ValueError that says why no such layer can be replaced.
LATHE_API void replace_head(Graph& graph, int64_t classes);

/// The names of the last layer's weight and bias; none if there is no such layer.
LATHE_API std::vector<std::string> head_parameters(const Graph& graph);

}  // namespace lathe::jit
