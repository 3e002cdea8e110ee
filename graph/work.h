// How much a graph from a file asks for, before any of it runs. A file of a few hundred bytes can
// name a tensor of 2^40 numbers; such a graph is refused when it is read. Internal: onnx.h and
// file.h are what others use.
#pragma once

#include <string_view>
#include <vector>

#include "lathe/graph/graph.h"

namespace lathe::jit {

/// Numbers in all results together, and multiplications and the like, that any graph may have.
inline constexpr double kFreeNumbers = 1 << 28, kFreeSteps = double{1 << 30} * 16;
/// Further numbers for each byte of the graph's tensors and each number of its inputs; further
/// steps for each pair of such a byte and a number of the inputs.
inline constexpr double kNumbersPerByte = 1024, kStepsPerPair = 16;

/// Refuses a graph whose results, or whose arithmetic, are out of proportion to its tensors and its
/// inputs, for a batch of one:
///   numbers in all results  <=  2^28 + 1024 * s,   s = bytes of tensors + numbers of inputs
///   steps                   <=  2^34 + 16 * s * i,  i = numbers of inputs
/// Results are what their types say, or what their op makes of its inputs' types if that is more.
/// Only nodes that an output needs count, since others do not run.
/// throws: DataError that names `name`, the node with most of it, its type and the bound.
LATHE_API void check_work(const Graph& graph, std::string_view name);

/// For each node, whether it has to run: an output of the graph needs its result, or it has
/// effects (Op::has_effects).
std::vector<bool> needed_nodes(const Graph& graph);
/// After which node each value is no longer needed: its number, or -1 for the outputs.
/// `needed`: the nodes that run.
std::vector<int> last_uses(const Graph& graph, const std::vector<bool>& needed);
/// True if node `end` adds up a loss: it is the sum or the mean of all elements of a value that the
/// group of the nodes from `begin` on computes, and nothing later reads that value (`last`, of
/// last_uses()). Then the group need not write the value.
bool adds_up(const Graph& graph, size_t begin, size_t end, const std::vector<int>& last);
/// For each value, whether a node writes into its tensor.
std::vector<bool> written_values(const Graph& graph);
/// True if one of the node's inputs is among `values`.
bool reads_any(const Node& node, const std::vector<bool>& values);

}  // namespace lathe::jit
