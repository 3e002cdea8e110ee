// Passes: functions that rewrite a graph in place. Each has its file in graph/passes/. A pass that
// finds nothing to rewrite changes nothing. optimize_for_inference() runs all but fuse_pointwise().
#pragma once

#include "lathe/graph/graph.h"

namespace lathe::jit {

/// Removes nodes whose results no output needs, and tensors that no node reads. Inputs stay.
/// Every pass keeps all nodes with effects (Op::has_effects), and never merges two of them.
LATHE_API void remove_dead_code(Graph& graph);

/// Merges nodes of one op with the same inputs and attributes into one node. Also merges constants
/// of up to 64 bytes with the same values. Results keep their bits.
LATHE_API void merge_common_subexpressions(Graph& graph);

/// Runs the nodes whose inputs are bound parameters, buffers and constants, if an output needs
/// them, and makes their results constants of the graph. From then on the graph does not follow
/// changes of these tensors. Results keep their bits.
/// throws: ShapeError if a result has another shape than its type says; what the ops throw.
LATHE_API void fold_constants(Graph& graph);

/// Folds a batch norm in inference mode into the filters and bias of the convolution before it, if
/// nothing else reads the convolution's result:
///   w' = w * s, b' = (b - mean) * s + bias, s = weight / sqrt(var + eps), per output channel
/// The new filters are nodes of the graph, which fold_constants() then computes.
///   - If the batch norm includes a relu or a residual, these become nodes of their own.
///   - It folds only if filters and statistics have the same dtype, or half filters and f32
///     statistics. Half filters are multiplied in f32 and rounded once, with their values from
///     before the cast that made them half.
/// Results change by rounding.
LATHE_API void fold_batch_norm(Graph& graph);

/// Puts pointwise nodes of one shape into a group, if no node between them needs their values. On
/// the CPU a group runs piece by piece, so that its intermediate values stay in the cache. Nodes
/// that do not depend on a group move before it. Results keep their bits.
/// optimize_for_inference() does not run this pass.
LATHE_API void fuse_pointwise(Graph& graph);

/// Makes these nodes one, if each result is read by the next node alone:
///   - conv2d, the addition of a tensor of its shape, relu → fused_conv2d. The addition or the relu
///     may be missing. If two convolutions are added, the one with the larger filters takes the
///     result of the other as its residual.
///   - linear, then relu or gelu → linear with that activation.
/// On a CPU results keep their bits. A GPU computes the activation of a linear layer from sums that
/// are not rounded (ops/mlp.h).
LATHE_API void fuse_epilogues(Graph& graph);

/// Makes convolutions read and write images in NHWC, in which they are fastest on a CPU. The pass
/// follows the order of values from op to op; convolution, pooling, batch norm and element-wise ops
/// keep it. Before a convolution it puts contiguous(…, format="channels_last") for an image or
/// residual that is not known to be in NHWC. In a run where the image is in NHWC, this node does
/// nothing. If there is such a node, views become reshapes, because their input may no longer be
/// row-major.
/// Results change by rounding, and results of four dimensions may be in NHWC.
LATHE_API void use_channels_last(Graph& graph);

/// Runs remove_dead_code, fold_batch_norm, fold_constants, merge_common_subexpressions,
/// fuse_epilogues, use_channels_last, remove_dead_code. Parameters in the graph then require no
/// gradient, so that convolutions keep them in the form that their kernels need. They still share
/// their values with the model. A fused_conv2d with such filters chooses its algorithm accordingly
/// (Conv2dEpilogue::constant_filters).
LATHE_API void optimize_for_inference(Graph& graph);

}  // namespace lathe::jit
