// Arrival: a gradient at the end of a backward pass, before it becomes part of a tensor's grad().
// Used by engine.cpp.
#pragma once

#include <mutex>
#include <vector>

#include "lathe/core/tensor.h"

namespace lathe::autograd {

/// The gradient that arrived at a leaf, or at an op's result with retain_grad(). prepare() does all
/// that can fail, commit() changes grad(). Both need the locks. prepare() may widen grad(), which
/// changes no value.
struct Arrival {
  IntrusivePtr<TensorImpl> tensor;
  Tensor gradient;
  Tensor new_grad = {};  // will replace grad(); undefined: the gradient is added to it in place
  bool is_grad = false;  // `gradient` is to be grad() itself: a listener's
  bool hooked = false;   // the leaf's hooks have run
  bool taken = false;    // by a listener

  void prepare(bool create_graph);
  void commit();
};

/// Holds the leaf_mutex of every arrival. All threads take them in the same order.
class GradLocks {
 public:
  explicit GradLocks(const std::vector<Arrival>& arrivals);

 private:
  std::vector<std::unique_lock<std::mutex>> locks_;
};

}  // namespace lathe::autograd
