// The engine: walks the graph from outputs to leaves, newest op first, and accumulates gradients.
//
// Note [A backward pass that fails]
// Gradients gather inside the pass. grad() of leaves (and of results with retain_grad()) changes at
// its very end, after the last hook and the last allocation; so a pass that throws, whether in an
// op's closure, a hook or for want of memory, leaves every grad() as it was. The graph may be used
// up in part: without retain_graph an op gives back what it saved as soon as it has run, which is
// what makes room for the gradients, and a second attempt is a StateError.
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
