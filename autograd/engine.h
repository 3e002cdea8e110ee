// The engine: walks the graph from outputs to leaves, newest op first, and accumulates gradients.
//
// Note [A backward pass that fails]
// Gradients gather inside the pass. grad() of leaves (and of results with retain_grad()) changes at
// its very end, after the last hook and the last allocation; so a pass that throws, whether in an
// op's closure, a hook or for want of memory, leaves every grad() as it was. The graph may be used
// up in part: without retain_graph an op gives back what it saved as soon as it has run, which is
// what makes room for the gradients, and a second attempt is a StateError.
//
// Note [Gradients and threads]
// Each thread has its own grad mode and Autocast state. Without locks of the caller's, at the same
// time:
// - forward and backward passes of different graphs, also where they share leaves: a pass adds all
//   its gradients under locks that grad() and set_grad() take too. Hooks run outside these locks,
//   on the thread that called backward().
// - any number of threads that read one tensor: its values, requires_grad(), ops on it.
// - dropping handles, the last one of a graph or a tensor included.
// One thread at a time, and nobody else reading:
// - a graph: backward(), grad(outputs, …), register_hook, remove_hook and retain_grad of its
//   tensors. Two graphs that share an op are one graph.
// - a tensor that is written: in-place ops, requires_grad_, set_data. A gradient is written while a
//   pass may add to it: read the values of grad() when the passes are over.
// - a view whose base was written in place, through whichever tensor: the first look at its history
//   afterwards (requires_grad(), is_leaf(), grad_fn(), any op on it) brings it up to date, and so
//   writes it. Look once before sharing it.
#pragma once

#include "lathe/autograd/node.h"
#include "lathe/core/tensor.h"

namespace lathe {

struct GradOptions {
  Tensors grad_outputs =
      {};  // one per output; an undefined or absent one means ones (one-element outputs only)
  bool retain_graph = false;  // true: the graph can be walked again
  bool create_graph = false;  // true: the results have gradients themselves (implies retain_graph)
  bool allow_unused = false;  // true: an input that no output depends on gets an undefined gradient
};

/// d(sum of outputs)/d(inputs), without touching any grad(). Inputs may be leaves or results of
/// ops. throws: StateError if an input does not require grad, is unused (unless allowed), or the
/// graph was freed;
///         ShapeError if an output without grad_output has more than one element.
LATHE_API Tensors grad(const Tensors& outputs, const Tensors& inputs,
                       const GradOptions& options = {});

namespace autograd {

struct BackwardCall {
  const Tensors& outputs;
  const Tensors& gradients;  // one per output
  bool retain_graph;
  bool create_graph;
  const Tensors* inputs =
      nullptr;  // null: accumulate into the leaves' grad(); else: return these tensors' gradients
};

/// One backward pass on the calling thread. See Note [A backward pass that fails].
LATHE_API Tensors run_backward(const BackwardCall& call);

/// The node whose closure runs on this thread; null outside a backward pass.
LATHE_API Node* current_node() noexcept;

}  // namespace autograd
}  // namespace lathe
