// Getting saved tensors back in the backward pass: the version check, and the output's node.
#include "lathe/autograd/saved.h"

#include "lathe/autograd/engine.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/autograd/meta.h"

namespace lathe::autograd {

const Tensor& Saved::get() const {
  if (!tensor_.defined()) return tensor_;
  LATHE_CHECK(StateError, tensor_.impl().storage.get() == storage_,
              "backward: a saved tensor was given other data by set_data (saved: ", tensor_, ")");
  if (tensor_.version() != version_) {
    const Node* node = current_node();
    LATHE_FAIL(StateError, "backward: a tensor that ", node == nullptr ? "an op" : node->name,
               " saved was modified by an in-place operation: version ", tensor_.version(),
               ", expected ", version_, " (saved: ", tensor_, ")");
  }
  return tensor_;
}

SavedOutput::SavedOutput(const Tensor& y) : saved_(alias(y, y.shape(), y.strides(), y.offset())) {}

Tensor SavedOutput::get() const {
  const Tensor& t = saved_.get();
  Node* node = current_node();
  if (!grad_enabled() || node == nullptr) return t;
  Tensor with_history = alias(t, t.shape(), t.strides(), t.offset());
  meta_of(with_history).grad_fn = NodePtr(node);
  return with_history;
}

}  // namespace lathe::autograd
