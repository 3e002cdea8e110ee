// The methods of Tensor that deal with gradients; contracts in core/tensor.h.
#include <atomic>
#include <mutex>

#include "lathe/autograd/engine.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/autograd/half_copy.h"
#include "lathe/autograd/meta.h"
#include "lathe/core/tensor.h"

namespace lathe {

using autograd::gradient_edge;
using autograd::Meta;
using autograd::meta_of;

bool Tensor::requires_grad() const {
  const TensorImpl& t = impl();
  if (t.meta == nullptr && !t.base) return false;
  return gradient_edge(*this).wanted();
}

const Tensor& Tensor::requires_grad_(bool value) const {
  LATHE_CHECK(DTypeError, !value || is_floating(dtype()),
              "requires_grad_: only floating tensors have gradients (this: ", *this, ")");
  LATHE_CHECK(StateError, is_leaf(), "requires_grad_: this is not a leaf but the result of ",
              grad_fn(), " (this: ", *this, ")");
  LATHE_CHECK(StateError, !(value && impl().inference),
              "requires_grad_: this was made in InferenceMode; clone it first (this: ", *this, ")");
  if (value || impl().meta != nullptr) meta_of(*this).requires_grad = value;
  return *this;
}

bool Tensor::is_leaf() const { return !gradient_edge(*this).node; }

Tensor Tensor::grad() const {
  const TensorImpl& t = impl();
  if (t.meta == nullptr) return {};
  const std::lock_guard lock(autograd::leaf_mutex(&t));
  Tensor& grad = t.meta->grad;
  amp::widen(grad, t.dtype);
  return grad;
}

void Tensor::set_grad(const Tensor& grad) const {
  if (!grad.defined() && impl().meta == nullptr) return;
  if (grad.defined()) {
    LATHE_CHECK(ShapeError, grad.shape() == shape(), "set_grad: a gradient ", grad,
                " does not fit ", *this);
    LATHE_CHECK(DTypeError, grad.dtype() == dtype(), "set_grad: a gradient ", grad,
                " does not fit ", *this);
    LATHE_CHECK(DeviceError, grad.device() == device(), "set_grad: a gradient ", grad,
                " does not fit ", *this);
  }
  Meta& meta = meta_of(*this);
  const std::lock_guard lock(autograd::leaf_mutex(&impl()));
  meta.grad = grad;
}

void Tensor::backward() const { backward(BackwardOptions{}); }
void Tensor::backward(const Tensor& gradient) const { backward({.gradient = gradient}); }

void Tensor::retain_grad() const {
  const autograd::Edge edge = gradient_edge(*this);
  LATHE_CHECK(StateError, edge.wanted(), "retain_grad: this does not require grad (this: ", *this,
              ")");
  if (edge.node) edge.node->retain_target = &impl();
}

int64_t Tensor::register_hook(std::function<Tensor(const Tensor&)> hook) const {
  static std::atomic<int64_t> counter{0};
  const autograd::Edge edge = gradient_edge(*this);
  LATHE_CHECK(StateError, edge.wanted(), "register_hook: this does not require grad (this: ", *this,
              ")");
  auto& hooks = edge.node ? edge.node->hooks : meta_of(*this).hooks;
  if (hooks == nullptr) hooks = std::make_unique<autograd::Hooks>();
  const int64_t number = ++counter;
  hooks->push_back({number, std::move(hook)});
  return number;
}

void Tensor::remove_hook(int64_t number) const {
  const autograd::Edge edge = gradient_edge(*this);
  if (!edge.wanted()) return;
  auto& hooks = edge.node ? edge.node->hooks : meta_of(*this).hooks;
  if (hooks != nullptr) std::erase_if(*hooks, [&](const auto& h) { return h.number == number; });
}

Tensor Tensor::detach() const { return alias(*this, shape(), strides(), offset()); }

std::string Tensor::grad_fn() const {
  const autograd::Edge edge = gradient_edge(*this);
  return edge.node ? edge.node->name : "";
}

void Tensor::set_data(const Tensor& source) const {
  TensorImpl& t = impl();
  LATHE_CHECK(StateError, is_leaf() && !t.base,
              "set_data: only a leaf that is no view can take other data (this: ", *this, ")");
  LATHE_CHECK(DTypeError, !requires_grad() || is_floating(source.dtype()),
              "set_data: this requires grad, so ", source, " must be floating");
  const TensorImpl& s = source.impl();
  if (t.meta != nullptr && t.meta->half_copy) amp::half_copy_outdated(*this);
  const bool same_dtype = t.dtype == s.dtype;  // as grad()'s, which may have stayed half
  // Within one storage only the version tells an op that had kept this tensor.
  const bool moves = t.offset != s.offset || !(t.shape == s.shape) || !(t.strides == s.strides);
  if (t.storage == s.storage && moves) t.storage->bump_version();
  if (t.meta != nullptr) {  // of the old values
    t.meta->companion = {};
    t.meta->made_by = {};
  }
  t.storage = s.storage;
  t.offset = s.offset;
  t.numel = s.numel;
  t.dtype = s.dtype;
  t.shape = s.shape;
  t.strides = s.strides;
  if (t.meta == nullptr || !t.meta->grad.defined()) return;
  const Tensor& grad = t.meta->grad;
  if (!(grad.shape() == t.shape) || !same_dtype || grad.device() != source.device()) {
    t.meta->grad = Tensor();
  }
}

}  // namespace lathe
