// Saved: a tensor kept for the backward pass. It remembers the version of the values, so that an
// in-place write before the backward pass is an error.
#pragma once

#include <memory>

#include "lathe/autograd/node.h"

namespace lathe::autograd {

struct PackedTensor;  // what SavedTensorHooks made of a saved tensor
/// True if SavedTensorHooks want the tensors that ops save on this thread.
LATHE_API bool packs_saved() noexcept;

/// t, or for a lent tensor (lend.h) another handle to what it shows now, with its history.
LATHE_API Tensor lasting(const Tensor& t);

/// t as an op keeps it: apart from the tensor, whose history an in-place op may change, with the
/// node that made these values. With the tensor itself, h.mul_(y) would close the cycle h → mul_ →
/// the op that made y and kept h → h, and nothing of it would ever be released.
/// A leaf that requires grad is kept as it is: while it does, no in-place op gives it a history.
/// A tensor that requires grad only later counts as a constant.
struct LATHE_API Kept {
  Kept() = default;
  explicit Kept(const Tensor& t);
  /// The tensor, with its history where gradients are recorded.
  Tensor get() const;

  Tensor tensor;
  NodePtr node;
};

/// An input of the op, kept with its history, so that the gradient can be differentiated again.
class LATHE_API Saved {
 public:
  explicit Saved(const Tensor& t) {
    if (!t.defined()) return;
    remember(t);
    keep(t);
  }

  /// throws: StateError if an in-place op changed the tensor since, or set_data() a leaf that
  /// requires grad; what hooks throw.
  Tensor get() const;

 private:
  friend class SavedOutput;
  void remember(const Tensor& t) {
    storage_ = t.impl().storage.get();
    version_ = t.version();
  }
  void keep(const Tensor& t);
  /// Lets the hooks have the tensor as soon as the op is recorded.
  void offer(const Tensor& t);
  void check_unchanged(const Tensor& t) const;

  Kept kept_;                         // undefined where packed_ has it
  const Storage* storage_ = nullptr;  // differs from the tensor's after set_data()
  uint32_t version_ = 0;
  std::shared_ptr<PackedTensor> packed_;
};

/// The output of the op, kept without its node: the cycle node → output → node would never be
/// released.
class LATHE_API SavedOutput {
 public:
  /// `output` says which one y is of an op with several.
  explicit SavedOutput(const Tensor& y, uint32_t output = 0);

  /// Returns the output. Where gradients are recorded, the tensor gets its node back.
  /// throws: StateError as Saved::get().
  Tensor get() const;

 private:
  Saved saved_{Tensor()};
  uint32_t output_;
};

}  // namespace lathe::autograd
