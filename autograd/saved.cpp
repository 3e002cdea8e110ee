// Getting saved tensors back in the backward pass: the version check, and the output's node.
#include "lathe/autograd/saved.h"

#include "lathe/autograd/engine.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/autograd/meta.h"
#include "lathe/autograd/packed_tensor.h"
#include "lathe/autograd/record.h"

namespace lathe::autograd {

void Saved::offer() {
  packed_ = std::make_shared<PackedTensor>();
  packed_->waiting = std::exchange(tensor_, {});
  wait_for_hooks(packed_);
}

Tensor Saved::get() const {
  if (packed_ && packed_->unpack) return packed_->get();
  if (packed_) return unchanged(packed_->waiting);
  return tensor_.defined() ? unchanged(tensor_) : tensor_;
}

const Tensor& Saved::unchanged(const Tensor& t) const {
  LATHE_CHECK(StateError, t.impl().storage.get() == storage_,
              "backward: a saved tensor was given other data by set_data (saved: ", t, ")");
  if (t.version() != version_) {
    const Node* node = current_node();
    LATHE_FAIL(StateError, "backward: a tensor that ", node == nullptr ? "an op" : node->name,
               " saved was modified by an in-place operation: version ", t.version(), ", expected ",
               version_, " (saved: ", t, ")");
  }
  return t;
}

SavedOutput::SavedOutput(const Tensor& y, uint32_t slot)
    : saved_(alias(y, y.shape(), y.strides(), y.offset())), slot_(slot) {}

Tensor SavedOutput::get() const {
  const Tensor t = saved_.get();
  Node* node = current_node();
  if (!grad_enabled() || node == nullptr) return t;
  Tensor with_history = alias(t, t.shape(), t.strides(), t.offset());
  meta_of(with_history).grad_fn = maker_of_output(node, slot_, t);
  return with_history;
}

}  // namespace lathe::autograd
