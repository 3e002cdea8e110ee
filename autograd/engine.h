// The engine: walks the graph from outputs to leaves, newest op first, and accumulates gradients.
//
// Note [A backward pass that fails]
// Gradients are collected inside the pass. grad() of leaves (and of results with retain_grad())
// changes only at the very end, after the last hook and the last allocation. So a pass that throws
// leaves every grad() as it was, whether an op's closure, a hook or a lack of memory is the reason.
// Part of the graph may be used up: without retain_graph an op releases what it saved as soon as it
// has run, to make room for the gradients. A second backward pass then throws StateError.
//
// Note [Gradients and threads]
// Each thread has its own grad mode and Autocast state. Threads may do the following at the same
// time, without a lock of the caller's:
// - forward and backward passes of different graphs, also if they share leaves: a pass adds all its
//   gradients under locks that grad() and set_grad() take too. Hooks run outside these locks, on
//   the thread that called backward().
// - reading one tensor from several threads: its values, requires_grad(), ops on it.
// - dropping handles, also the last one of a graph or a tensor.
// The following needs one thread at a time, and no other thread may read meanwhile:
// - a graph: backward(), grad(outputs, …), register_hook, remove_hook and retain_grad of its
//   tensors. Two graphs that share an op are one graph.
// - a tensor that is written: in-place ops, requires_grad_, set_data. A pass may write the values
//   of a gradient: read the values of grad() when all passes are over.
// - a view whose base was written in place through any tensor: the first call that needs its
//   history afterwards (requires_grad(), is_leaf(), grad_fn(), any op on it) updates the history
//   and so writes the view. Make one such call before you share the view.
#pragma once

#include "lathe/autograd/node.h"
#include "lathe/core/tensor.h"

namespace lathe {

struct GradOptions {
  // One gradient per output. If it is undefined or missing, it is 1; the output must then have one
  // element.
  Tensors grad_outputs = {};
  bool retain_graph = false;  // true: the graph can be walked again
  bool create_graph = false;  // true: the results have gradients themselves (implies retain_graph)
  bool allow_unused = false;  // true: an input that no output depends on gets an undefined gradient
};

/// Returns the gradients of the sum of outputs[k] * grad_outputs[k] with respect to the inputs.
/// Leaves Tensor::grad() of all tensors unchanged. Inputs may be leaves or results of ops.
/// throws: StateError if an output or an input does not require grad, if an input affects none of
/// the outputs (unless allow_unused), or if the autograd graph was freed; ShapeError if an output
/// without a grad_output has more than one element, or a grad_output does not match its output.
LATHE_API Tensors grad(const Tensors& outputs, const Tensors& inputs,
                       const GradOptions& options = {});

namespace autograd {

struct BackwardCall {
  const Tensors& outputs;
  const Tensors& gradients;  // one per output
  bool retain_graph;
  bool create_graph;
  // null: add to the leaves' grad(); else: return the gradients of these tensors
  const Tensors* inputs = nullptr;
  bool stop_at_inputs = false;    // true: does not walk beyond the inputs
  const Tensors* only = nullptr;  // null: all leaves; else: the leaves whose grad() may change
};

/// Runs one backward pass on the calling thread. See Note [A backward pass that fails].
LATHE_API Tensors run_backward(const BackwardCall& call);

/// The node whose closure runs on this thread; null outside of a backward pass.
LATHE_API Node* current_node() noexcept;

}  // namespace autograd
}  // namespace lathe
