// Passes: functions that rewrite a graph in place. Each has its file in graph/passes/. A pass that
// finds nothing to rewrite changes nothing. optimize_for_inference() runs all but fuse_pointwise().
#pragma once

#include "lathe/graph/graph.h"

namespace lathe::jit {

/// Removes nodes whose results no output needs, and tensors that no node reads. Inputs stay. This
/// pass and all others keep nodes with effects (Op::has_effects), and never merge two of these.
LATHE_API void remove_dead_code(Graph& graph);

/// Merges nodes of one op with the same inputs and attributes into one node. Also merges constants
/// of up to 64 bytes with the same values. Results keep their bits.
LATHE_API void merge_common_subexpressions(Graph& graph);

/// Runs the nodes whose inputs are all bound parameters, buffers or constants, if an output needs
/// the nodes. Their results become constants of the graph. Later changes of the parameters and
/// buffers have no effect on these constants. Results keep their bits.
/// throws: ShapeError if a result has another shape than its type says; what the ops throw.
LATHE_API void fold_constants(Graph& graph);

/// Folds a batch norm in inference mode into the filters and bias of the convolution before it, if
/// nothing else reads the convolution's result:
///   w' = w * s, b' = (b - mean) * s + bias, s = weight / sqrt(var + eps), per output channel
/// The graph gets nodes that compute the new filters; fold_constants() then runs these nodes.
///   - If the batch norm includes a relu or a residual, these become nodes of their own.
///   - The pass folds only if filters and statistics have the same dtype, or the filters are half
///     and the statistics f32. If a cast made the filters half, the pass multiplies their f32
///     values from before the cast, and rounds once.
/// Results change by rounding.
LATHE_API void fold_batch_norm(Graph& graph);

/// Puts pointwise nodes of one shape into a group, if no node between them needs their values. On
/// the CPU a group runs piece by piece, so that its intermediate values stay in the cache. Nodes
/// that do not depend on a group move before it. Results keep their bits.
/// optimize_for_inference() does not run this pass.
LATHE_API void fuse_pointwise(Graph& graph);

/// Replaces these chains of nodes by one node, if no other node reads a result in the middle of the
/// chain:
///   - conv2d, the addition of a tensor of its shape, relu → fused_conv2d. The addition or the relu
///     may be missing. If two convolutions are added, the one with the larger filters takes the
///     result of the other as its residual.
///   - linear, then relu or gelu → linear with that activation.
/// On a CPU results keep their bits. On a GPU the activation of a linear layer reads sums before
/// they are rounded (ops/mlp.h).
LATHE_API void fuse_epilogues(Graph& graph);

/// Makes convolutions read and write images in NHWC, the order in which they are fastest on a CPU.
/// The pass follows the memory order of values from op to op; convolution, pooling, batch norm and
/// element-wise ops keep the order. If an image or residual of a convolution is not known to be in
/// NHWC, the pass puts a node contiguous(…, format="channels_last") before the convolution. A node
/// contiguous does nothing if its input already is in NHWC. If the pass has put in such a node, it
/// turns views into reshapes, because the input of a view may no longer be row-major. Results
/// change by rounding, and results of four dimensions may be in NHWC.
LATHE_API void use_channels_last(Graph& graph);

/// Runs remove_dead_code, fold_batch_norm, fold_constants, merge_common_subexpressions,
/// fuse_epilogues, use_channels_last, remove_dead_code. Afterwards parameters in the graph require
/// no gradient, so convolutions can keep them in the form that their kernels need. The parameters
/// still share their values with the model. fused_conv2d knows that its filters are constant
/// (Conv2dEpilogue::constant_filters) and chooses its algorithm for this case.
LATHE_API void optimize_for_inference(Graph& graph);

}  // namespace lathe::jit
