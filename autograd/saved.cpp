// Getting saved tensors back in the backward pass: the version check, and the output's node.
#include "lathe/autograd/saved.h"

#include "lathe/autograd/engine.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/autograd/meta.h"
#include "lathe/autograd/packed_tensor.h"
#include "lathe/autograd/recompute.h"
#include "lathe/autograd/record.h"

namespace lathe::autograd {

namespace {

Tensor with_maker(const Tensor& t, NodePtr node) {
  Tensor out = alias(t, t.shape(), t.strides(), t.offset());
  meta_of(out).grad_fn = std::move(node);
  return out;
}

}  // namespace

Kept::Kept(const Tensor& t) {
  const TensorImpl& impl = t.impl();
  const bool is_trained_leaf =
      impl.meta != nullptr && impl.meta->requires_grad && !impl.meta->grad_fn;
  if (is_trained_leaf && !impl.lent) {
    tensor = t;
    return;
  }
  if (impl.meta != nullptr || impl.base || impl.lent) node = gradient_edge(lasting(t)).node;
  tensor = alias(t, t.shape(), t.strides(), t.offset());
}

Tensor Kept::get() const { return node && grad_enabled() ? with_maker(tensor, node) : tensor; }

void Saved::keep(const Tensor& t) {
  if (packs_saved()) return offer(t);
  if (grad_enabled()) {
    if (std::function<Tensor()> again = use_recomputation(t)) {
      packed_ = std::make_shared<PackedTensor>();
      packed_->keep_recomputation(t, std::move(again));
      return;
    }
    note_activation(t);
    kept_ = Kept(t);
  } else {
    kept_.tensor = t;  // the op will not be recorded, and this goes at once
  }
}

void Saved::offer(const Tensor& t) {
  packed_ = std::make_shared<PackedTensor>();
  packed_->waiting = lasting(t);
  wait_for_hooks(packed_);
}

Tensor Saved::get() const {
  if (packed_ && packed_->unpack) return packed_->get();
  if (packed_ && packed_->waiting.defined()) {
    check_unchanged(packed_->waiting);
    return packed_->waiting;
  }
  const Kept& kept = packed_ ? packed_->kept : kept_;
  if (kept.tensor.defined()) check_unchanged(kept.tensor);
  return kept.get();
}

void Saved::check_unchanged(const Tensor& t) const {
  LATHE_CHECK(StateError, t.impl().storage.get() == storage_,
              "backward: a saved tensor was given other data by set_data (saved: ", t, ")");
  if (t.version() != version_) {
    const Node* node = current_node();
    const std::string_view keeper = computes_again()  ? "Recompute"
                                    : node == nullptr ? "an op"
                                                      : std::string_view(node->name);
    LATHE_FAIL(StateError, "backward: a tensor that ", keeper,
               " saved was modified by an in-place operation: version ", t.version(), ", expected ",
               version_, " (saved: ", t, ")");
  }
}

SavedOutput::SavedOutput(const Tensor& y, uint32_t output) : output_(output) {
  const Tensor own = alias(y, y.shape(), y.strides(), y.offset());
  saved_.remember(own);
  if (packs_saved()) {
    saved_.offer(own);
  } else {
    saved_.kept_.tensor = own;
  }
}

Tensor SavedOutput::get() const {
  const Tensor t = saved_.get();
  Node* node = current_node();
  if (!grad_enabled() || node == nullptr) return t;
  return with_maker(t, maker_of_output(node, output_, t));
}

}  // namespace lathe::autograd
