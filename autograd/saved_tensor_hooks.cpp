// Hooks on saved tensors. An op makes its Saved before it is known whether the op will be recorded,
// so hooks get a tensor only when attach() says so: until then it waits in a list of the thread.
#include "lathe/autograd/saved_tensor_hooks.h"

#include <memory>
#include <vector>

#include "lathe/autograd/grad_mode.h"
#include "lathe/autograd/meta.h"
#include "lathe/autograd/packed_tensor.h"
#include "lathe/autograd/record.h"
#include "lathe/core/copy.h"
#include "lathe/core/dense.h"
#include "lathe/core/hooks/range.h"

namespace lathe {

namespace autograd {

namespace {

constinit thread_local const Packer* t_packer = nullptr;
thread_local std::vector<std::weak_ptr<PackedTensor>> t_waiting;

/// While hooks run: no recording, and no hooks on what they save.
class QuietScope {
 public:
  QuietScope() : packer_(std::exchange(t_packer, nullptr)) {}
  ~QuietScope() { t_packer = packer_; }
  QuietScope(const QuietScope&) = delete;
  QuietScope& operator=(const QuietScope&) = delete;

 private:
  const NoGrad off_;
  const Packer* packer_;
};

/// A tensor whose gradient goes to `edge`.
Tensor with_history(const Tensor& t, const Edge& edge) {
  Tensor out = t.detach();
  if (edge.node) {
    meta_of(out).grad_fn = edge.node;
    return out;
  }
  auto pass = [](const Tensor& dy, const Needs&) { return Tensors{dy}; };
  NodePtr node(new ClosureNode<decltype(pass)>("saved", pass));
  node->edges.push_back(edge);
  node->shape = t.shape();
  node->dtype = t.dtype();
  node->device = t.device();
  node->reusable = true;
  meta_of(out).grad_fn = std::move(node);
  return out;
}

}  // namespace

bool packs_saved() noexcept { return t_packer != nullptr && grad_enabled(); }

void PackedTensor::pack(const Packer& packer) {
  const Tensor t = std::exchange(waiting, {});
  unpack = packer(t);
  if (!unpack) {
    kept = Kept(t);
    return;
  }
  note(t);
}

void PackedTensor::keep_recomputation(const Tensor& t, std::function<Tensor()> again) {
  unpack = std::move(again);
  note(t);
}

void PackedTensor::note(const Tensor& t) {
  edge = gradient_edge(t);
  shape = t.shape();
  dtype = t.dtype();
  device = t.device();
}

Tensor PackedTensor::get() const {
  const Tensor t = [&] {
    const QuietScope quiet;
    const profile::HookScope scope;
    return unpack();
  }();
  const auto text = [&] {
    return concat("SavedTensorHooks: unpack returned ", t, " for a saved tensor ", dtype, shape,
                  "@", device);
  };
  LATHE_CHECK(ShapeError, t.defined() && t.shape() == shape, text());
  LATHE_CHECK(DTypeError, t.dtype() == dtype, text());
  LATHE_CHECK(DeviceError, t.device() == device, text());
  return grad_enabled() && edge.wanted() ? with_history(t, edge) : t;
}

void wait_for_hooks(const std::shared_ptr<PackedTensor>& packed) {
  // Those of ops that were not recorded are gone.
  while (!t_waiting.empty() && t_waiting.back().expired()) t_waiting.pop_back();
  t_waiting.push_back(packed);
}

void pack_saved() {
  if (t_packer == nullptr || t_waiting.empty()) return;
  const std::vector<std::weak_ptr<PackedTensor>> waiting = std::exchange(t_waiting, {});
  const Packer& packer = *t_packer;
  const QuietScope quiet;
  for (const auto& entry : waiting) {
    if (const auto packed = entry.lock()) packed->pack(packer);
  }
}

}  // namespace autograd

SavedTensorHooks::SavedTensorHooks(autograd::Packer packer)
    : packer_(std::move(packer)), before_(std::exchange(autograd::t_packer, &packer_)) {}

SavedTensorHooks::~SavedTensorHooks() {
  autograd::t_waiting.clear();
  autograd::t_packer = before_;
}

namespace {

/// A copy in pinned memory. A dense tensor keeps the order of its elements.
Tensor pinned_copy(const Tensor& t) {
  const Tensor flat = empty({t.numel()}, {.dtype = t.dtype(), .pinned = true});
  Tensor copy =
      alias(flat, t.shape(), is_dense(t) ? t.strides() : contiguous_strides(t.shape()), 0);
  copy_values(copy, t);
  return copy;
}

bool is_parameter(const Tensor& t) { return t.is_leaf() && t.requires_grad(); }

std::function<Tensor()> pack_on_cpu(const Tensor& t) {
  const bool stays = is_parameter(t) || (t.impl().base && is_parameter(Tensor(t.impl().base)));
  if (t.device().is_cpu() || stays) return {};
  return [copy = pinned_copy(t), device = t.device()] {
    Tensor back = empty_strided(copy.shape(), copy.strides(), copy.dtype(), device);
    copy_values_async(back, copy);
    return back;
  };
}

}  // namespace

SaveOnCpu::SaveOnCpu() : SavedTensorHooks(autograd::Packer(pack_on_cpu)) {}

}  // namespace lathe
