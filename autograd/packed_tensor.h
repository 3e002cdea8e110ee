// PackedTensor: a saved tensor in the hands of SavedTensorHooks, or one that is computed again.
// Shared by saved.cpp and saved_tensor_hooks.cpp.
#pragma once

#include <functional>
#include <memory>

#include "lathe/autograd/node.h"
#include "lathe/autograd/saved.h"
#include "lathe/autograd/saved_tensor_hooks.h"

namespace lathe::autograd {

struct PackedTensor {
  Tensor waiting;                  // undefined once the hooks have seen it
  std::function<Tensor()> unpack;  // empty: the hooks left the tensor as it is …
  Kept kept;                       // … and here it is
  Edge edge;                       // the tensor's history
  Shape shape;
  DType dtype = DType::kF32;
  Device device;

  void pack(const Packer& packer);
  /// t itself is not kept: `again` computes it (recompute.h).
  void keep_recomputation(const Tensor& t, std::function<Tensor()> again);
  Tensor get() const;

 private:
  void note(const Tensor& t);  // what get() needs to know of it
};

/// pack_saved() will pack it, if it is still there.
void wait_for_hooks(const std::shared_ptr<PackedTensor>& packed);

}  // namespace lathe::autograd
