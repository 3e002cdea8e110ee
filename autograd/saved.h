// Saved: a tensor kept for the backward pass. It remembers the version, so that an in-place write
// in between is an error.
#pragma once

#include "lathe/autograd/node.h"

namespace lathe::autograd {

/// An input of the op, kept with its history (so that the gradient can be differentiated again).
class LATHE_API Saved {
 public:
  explicit Saved(const Tensor& t) : tensor_(t), version_(t.defined() ? t.version() : 0) {}

  /// throws: StateError if the values were modified by an in-place op since.
  const Tensor& get() const;

 private:
  Tensor tensor_;
  uint32_t version_;
};

/// The output of the op, kept without its node: otherwise node → output → node would never be
/// released.
class LATHE_API SavedOutput {
 public:
  explicit SavedOutput(const Tensor& y);

  /// throws: StateError as above. Where gradients are recorded, the tensor gets its node back.
  Tensor get() const;

 private:
  Saved saved_;
};

}  // namespace lathe::autograd
