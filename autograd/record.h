// The last of the four acts of an op (docs/tour/03-an-op.md): it records how its gradient is
// computed.
#pragma once

#include <initializer_list>
#include <type_traits>
#include <utility>

#include "lathe/autograd/grad_mode.h"
#include "lathe/autograd/node.h"
#include "lathe/autograd/saved.h"
#include "lathe/core/hooks/range.h"

namespace lathe::autograd {

/// A borrowed input: lets {x, w, bias} be passed without copying handles.
struct TensorRef {
  TensorRef(const Tensor& t) : tensor(&t) {}
  const Tensor* tensor;
};

/// True if grad mode is on and one of the inputs requires a gradient. Call it before the op's node
/// is made: it updates the history of inputs whose base was written in place, which makes nodes,
/// and a node must be newer than its inputs' nodes.
LATHE_API bool wants_record(const TensorRef* inputs, size_t count);
/// Enters `node` into the graph as the op that made y, with one edge per input.
/// throws: StateError for an input made in InferenceMode.
LATHE_API void attach(const Tensor& y, const TensorRef* inputs, size_t count, NodePtr node);
/// Enters `node` into the graph as the op that made all of `ys` (at least one tensor). ys[k] is
/// output k. An undefined ys[k] is an output without gradient.
/// throws: StateError for an input made in InferenceMode.
LATHE_API void attach_all(const Tensors& ys, const TensorRef* inputs, size_t count, NodePtr node);
/// Returns the node to record as the maker of y, where y is output number `output` of `node`. This
/// is `node` itself if it has one output, else a new node for this output.
LATHE_API NodePtr maker_of_output(Node* node, uint32_t output, const Tensor& y);

/// Records that `y` was computed from `inputs`. `backward(dy, need)` returns one gradient per
/// input. Does nothing if no gradient is needed or y is not floating. `op` is a string literal.
template <class F>
void record(const char* op, const Tensor& y, std::initializer_list<TensorRef> inputs,
            F&& backward) {
  profile::note_output(y);
  if (wants_record(inputs.begin(), inputs.size())) {
    attach(y, inputs.begin(), inputs.size(),
           NodePtr(new ClosureNode<std::decay_t<F>>(op, std::forward<F>(backward))));
  } else if (inference_enabled()) {
    y.impl().inference = true;
  }
}

/// Like record() with an initializer list, for inputs whose number is known only at run time.
template <class F>
void record(const char* op, const Tensor& y, const Tensors& inputs, F&& backward) {
  profile::note_output(y);
  const std::vector<TensorRef> refs(inputs.begin(), inputs.end());
  if (wants_record(refs.data(), refs.size())) {
    attach(y, refs.data(), refs.size(),
           NodePtr(new ClosureNode<std::decay_t<F>>(op, std::forward<F>(backward))));
  } else if (inference_enabled()) {
    y.impl().inference = true;
  }
}

/// Checks whether an in-place op may write into x. The op calls it before it changes anything.
/// throws: StateError for a leaf that requires grad (or a view of one) in grad mode; ValueError if
/// elements share memory.
LATHE_API void check_in_place(const char* op, const Tensor& x);

/// True if writing into x (from `sources`) must be recorded: x, the tensor that x is a view of, or
/// a source requires a gradient.
LATHE_API bool wants_record_in_place(const Tensor& x, std::initializer_list<TensorRef> sources);

}  // namespace lathe::autograd
