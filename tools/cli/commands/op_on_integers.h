// op_on_integers(): whether a graph was quantised, for `lathe ckpt convert`.
#pragma once

#include <string>

#include "lathe/graph/graph.h"

namespace lathe::cli {

/// The name of the first convolution or matrix product whose weights are 8-bit integers; "" if
/// there is none. The weights are a tensor of the graph, alone or with scales and zero points,
/// which have no more elements. A mask of 8-bit integers, all 0 or 1, is no weight: it is
/// multiplied by a tensor of f32 that has as many elements. Nor is what a graph rounds to 8 bits
/// while it runs.
std::string op_on_integers(const jit::Graph& graph);

}  // namespace lathe::cli
