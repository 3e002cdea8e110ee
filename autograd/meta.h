// Meta: what autograd knows of one tensor. Absent (null) for tensors without gradient and history.
#pragma once

#include <mutex>

#include "lathe/autograd/node.h"

namespace lathe::autograd {

struct Meta {
  NodePtr grad_fn;             // the op that made this tensor; null: a leaf
  Tensor grad;                 // accumulated by backward()
  bool requires_grad = false;  // of a leaf
  uint32_t history =
      0;  // of a base: how often an in-place write changed its history; of a view: its base's then
  std::unique_ptr<Hooks> hooks;  // of a leaf
};

/// The tensor's Meta, made if absent.
LATHE_API Meta& meta_of(const Tensor& t);

/// Makes `node` (null: nothing) the op that made t's values; a retained gradient is from then on
/// that of the new values.
LATHE_API void set_maker(const Tensor& t, NodePtr node);

/// Where t's gradient goes. A view whose base was written in place since gets its new history here.
LATHE_API Edge gradient_edge(const Tensor& t);

/// Guards Meta::grad, which several threads' backward passes may share; see engine.h, Note
/// [Gradients and threads]. Tensors share a few mutexes: whoever takes several sorts them first.
LATHE_API std::mutex& leaf_mutex(const TensorImpl* leaf);

// Defined in ops/ (autograd knows no op):
/// The op that takes a view's gradient from its base: as_strided of `view`'s geometry, recorded on
/// `base`.
LATHE_API NodePtr make_view_node(const Tensor& base, const Tensor& view);

}  // namespace lathe::autograd
