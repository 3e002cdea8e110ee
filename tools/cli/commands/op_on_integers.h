// op_on_integers(): whether a graph was quantised, for `lathe ckpt convert`.
#pragma once

#include <string>

#include "lathe/graph/graph.h"

namespace lathe::cli {

/// The name of the first convolution or matrix product whose weights are 8-bit integers; "" if
/// there is none. Weights are an integer tensor that the graph stores. Ops may first combine the
/// tensor with stored scales and zero points that have no more elements. These do not count as
/// weights:
///   - a mask of 8-bit integers, all 0 or 1, which is multiplied by an f32 tensor of as many
///     elements
///   - a tensor that the graph rounds to 8 bits while it runs
std::string op_on_integers(const jit::Graph& graph);

}  // namespace lathe::cli
