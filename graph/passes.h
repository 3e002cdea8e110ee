// Passes: rewrites of a graph in place, each in a file of its own, each for itself a no-op where it
// finds nothing. optimize_for_inference() runs them all.
#pragma once

#include "lathe/graph/graph.h"

namespace lathe::jit {

/// Removes the nodes whose results nobody needs, and the tensors that no node reads. Inputs stay.
LATHE_API void remove_dead_code(Graph& graph);

/// Two nodes of one op with the same inputs and attributes become one; so do constants of up to 64
/// bytes with the same values. Results keep their bits.
LATHE_API void merge_common_subexpressions(Graph& graph);

/// Computes the nodes whose inputs are bound parameters, buffers and constants, now and once. The
/// graph no longer follows changes of these tensors. Results keep their bits.
/// throws: ShapeError if a result does not have its type; what the ops throw.
LATHE_API void fold_constants(Graph& graph);

/// A batch norm in inference mode behind a convolution that nobody else reads goes into the
/// convolution's filters and bias:
///   w' = w * s, b' = (b - mean) * s + bias, s = weight / sqrt(var + eps), per output channel
/// The new filters are nodes of the graph, which fold_constants() then computes. A relu or a
/// residual that the batch norm had taken in becomes nodes again. Filters and statistics must have
/// one dtype. Results move by rounding: each product is rounded in another place.
LATHE_API void fold_batch_norm(Graph& graph);

/// Pointwise nodes of one shape become a group where nothing between them needs their values: they
/// run tile by tile on the CPU, and what is between them stays in its cache. Nodes that do not
/// depend on a group move before it. Results keep their bits. Not part of
/// optimize_for_inference().
LATHE_API void fuse_pointwise(Graph& graph);

/// fold_batch_norm, fold_constants, merge_common_subexpressions, remove_dead_code.
LATHE_API void optimize_for_inference(Graph& graph);

}  // namespace lathe::jit
