// TensorImpl: what a Tensor handle points to.
#pragma once

#include <cstdint>
#include <utility>

#include "lathe/core/config.h"
#include "lathe/core/dtype.h"
#include "lathe/core/intrusive.h"
#include "lathe/core/shape.h"
#include "lathe/core/storage.h"

namespace lathe {

namespace autograd {
class Node;
struct Meta;  // autograd/meta.h: gradient, history and hooks of one tensor
LATHE_API void destroy(Meta*) noexcept;  // defined in autograd/: core owns it without knowing it
}  // namespace autograd

/// The object behind one tensor. Library code reads it through Tensor.
struct LATHE_API TensorImpl final : RefCounted {
  TensorImpl(StoragePtr s, int64_t off, const Shape& sh, const Strides& st, DType t)
      : storage(std::move(s)), offset(off), numel(numel_of(sh)), dtype(t), shape(sh), strides(st) {}
  ~TensorImpl();

  StoragePtr storage;
  int64_t offset;  // elements from the start of the storage
  int64_t numel;
  DType dtype;
  bool inference = false;  // made in an InferenceMode scope: never takes part in a graph
  bool lent = false;       // shows another tensor for a while (autograd/lend.h)
  Shape shape;
  Strides strides;                 // in elements
  autograd::Meta* meta = nullptr;  // null: no gradient and no history
  IntrusivePtr<TensorImpl> base;   // of a view: the tensor that was viewed first
};
inline void add_reference(TensorImpl* t) { t->add_ref(); }
inline void drop_reference(TensorImpl* t) {
  if (t->drop_ref()) delete t;
}

}  // namespace lathe
