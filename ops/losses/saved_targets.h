// SavedTargets: class targets kept for the gradient; a later in-place write to them is an error.
#pragma once

#include "lathe/autograd/saved.h"
#include "lathe/ops/losses/class_targets.h"

namespace lathe {

class SavedTargets {
 public:
  explicit SavedTargets(const ClassTargets& targets)
      : index_(targets.index), weight_(targets.weight), rest_(targets) {
    rest_.index = rest_.weight = Tensor();
  }

  /// throws: StateError if targets or weights were modified in place since the constructor.
  ClassTargets get() const {
    ClassTargets targets = rest_;
    targets.index = index_.get();
    targets.weight = weight_.get();
    return targets;
  }

 private:
  autograd::Saved index_, weight_;
  ClassTargets rest_;  // without tensors
};

}  // namespace lathe
