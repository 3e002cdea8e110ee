// Meta: what autograd knows about one tensor. Null for tensors without gradient and history.
#pragma once

#include <memory>
#include <mutex>

#include "lathe/autograd/leaf_listener.h"
#include "lathe/autograd/node.h"

namespace lathe::amp {
struct HalfCopy;  // half_copy.cpp
}

namespace lathe::autograd {

/// What set_companion() keeps, and of which values.
struct Companion {
  Tensor tensor;
  const Storage* storage = nullptr;
  uint32_t version = 0;
};

class Recomputation;  // recompute.cpp

/// What set_recomputation() tells of a tensor, and of which values.
struct MadeBy {
  std::weak_ptr<Recomputation> recomputation;
  const Storage* storage = nullptr;
  uint32_t version = 0;
};

struct Meta {
  NodePtr grad_fn;             // the op that made this tensor; null: a leaf
  Tensor grad;                 // accumulated by backward(); half where half_copy.h says so
  bool requires_grad = false;  // of a leaf
  // Of a base: how often an in-place write changed its history. Of a view: the base's count when
  // the view's own history was made.
  uint32_t history = 0;
  std::unique_ptr<Hooks> hooks;              // of a leaf
  std::unique_ptr<LeafLink> link;            // of a leaf with a listener
  Companion companion;                       // companion.h
  MadeBy made_by;                            // recompute.h
  std::shared_ptr<amp::HalfCopy> half_copy;  // of a leaf whose optimiser keeps one
};

/// The tensor's Meta, made if absent.
LATHE_API Meta& meta_of(const Tensor& t);

/// Counts t's memory as activations (core/hooks/memory_tag.h) unless it is known to be something
/// else or is a weight: a leaf that requires grad, which is no module's.
inline void note_activation(const Tensor& t) {
  const TensorImpl& impl = t.impl();
  if (impl.storage->tag() != profile::MemoryTag::kOther) return;
  const Meta* const meta = impl.base ? impl.base->meta : impl.meta;
  if (meta != nullptr && meta->requires_grad && !meta->grad_fn) return;
  impl.storage->set_tag(profile::MemoryTag::kActivations);
}

/// Records that `node` (null: no op) made t's values. If t retains its gradient, that is now the
/// gradient of the new values.
LATHE_API void set_maker(const Tensor& t, NodePtr node);

/// Where t's gradient goes. If t is a view whose base was written in place since, this first makes
/// the view's new history.
LATHE_API Edge gradient_edge(const Tensor& t);

/// Guards Meta::grad, which backward passes of several threads may share; see engine.h, Note
/// [Gradients and threads]. Tensors share 64 mutexes: take several of them in sorted order.
LATHE_API std::mutex& leaf_mutex(const TensorImpl* leaf);

// Defined in ops/, because autograd knows no op:
/// The op through which a view gets its gradient from its base: as_strided with the geometry of
/// `view`, recorded on `base`.
LATHE_API NodePtr make_view_node(const Tensor& base, const Tensor& view);

}  // namespace lathe::autograd
