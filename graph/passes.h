// Passes: rewrites of a graph in place. Each is a file of graph/passes/. It changes nothing where
// it finds nothing. optimize_for_inference() runs all but fuse_pointwise().
#pragma once

#include "lathe/graph/graph.h"

namespace lathe::jit {

/// Removes the nodes whose results nobody needs, and the tensors that no node reads. Inputs stay.
/// Nodes with effects (Op::has_effects) stay in every pass, each by itself.
LATHE_API void remove_dead_code(Graph& graph);

/// Two nodes of one op with the same inputs and attributes become one; so do constants of up to 64
/// bytes with the same values. Results keep their bits.
LATHE_API void merge_common_subexpressions(Graph& graph);

/// Computes the nodes whose inputs are bound parameters, buffers and constants, now and once, where
/// an output needs them. The graph no longer follows changes of these tensors. Results keep their
/// bits.
/// throws: ShapeError if a result does not have its type; what the ops throw.
LATHE_API void fold_constants(Graph& graph);

/// A batch norm in inference mode behind a convolution that nobody else reads goes into the
/// convolution's filters and bias:
///   w' = w * s, b' = (b - mean) * s + bias, s = weight / sqrt(var + eps), per output channel
/// The new filters are nodes of the graph, which fold_constants() then computes. A relu or a
/// residual that the batch norm had taken in becomes nodes again. Filters and statistics must have
/// one dtype; half filters are multiplied in f32, as they were before a cast made them half, and
/// rounded once. Results move by rounding: each product is rounded in another place.
LATHE_API void fold_batch_norm(Graph& graph);

/// Pointwise nodes of one shape become a group where nothing between them needs their values: they
/// run piece by piece on the CPU, and what is between them stays in its cache. Nodes that do not
/// depend on a group move before it. Results keep their bits. Not part of
/// optimize_for_inference().
LATHE_API void fuse_pointwise(Graph& graph);

/// conv2d, then the addition of a tensor of its shape, then relu, each read by the next alone →
/// fused_conv2d; either of the two behind it may be missing. Of two convolutions that are added,
/// the one with the larger filters takes in the other as its residual. linear, then relu or gelu →
/// linear with that activation. Results keep their bits where ops do on a CPU: a GPU computes the
/// activation of a linear layer from sums that are not rounded (ops/mlp.h).
LATHE_API void fuse_epilogues(Graph& graph);

/// Chooses NHWC for the whole graph: in it convolutions are fastest on a CPU. The order of values
/// is followed from op to op. The pass puts contiguous(…, format="channels_last") before each
/// convolution whose image, or residual, is not known to be in NHWC; in a run where it is, that
/// does nothing. Convolution, pooling, batch norm and element-wise ops keep the order. So images
/// that convolutions read or write are in NHWC. Where there is such a node, views become reshapes:
/// they may have been of row-major values.
/// Results move by rounding, and those of four dimensions may lie in this order.
LATHE_API void use_channels_last(Graph& graph);

/// remove_dead_code, fold_batch_norm, fold_constants, merge_common_subexpressions, fuse_epilogues,
/// use_channels_last, remove_dead_code. Parameters then require no gradient in the graph, so that
/// convolutions keep them in the form that their kernels want; they still share their values with
/// the model. A fused_conv2d of such filters chooses its algorithm for that
/// (Conv2dEpilogue::constant_filters).
LATHE_API void optimize_for_inference(Graph& graph);

}  // namespace lathe::jit
