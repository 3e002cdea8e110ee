// The adjoint pair behind the gradients of slice, select, narrow, as_strided and in-place writes
// through views (strided_adjoint.cpp).
#pragma once

#include "lathe/core/tensor.h"

namespace lathe {

/// How a tensor lies in a storage: shape, strides and offset, in elements.
struct Geometry {
  Shape shape;
  Strides strides;
  int64_t offset = 0;
};

/// The row-major geometry of `shape`, from offset 0.
LATHE_API Geometry dense_geometry(const Shape& shape);
LATHE_API Geometry geometry_of(const Tensor& t);

/// A tensor laid out as `base`: zero everywhere, with `values` added at the elements that `view`
/// refers to. Overlapping elements of the view add up.
///   values  view.shape   →  base.shape
/// grad: values, twice differentiable.
LATHE_API Tensor scatter_strided(const Tensor& values, const Geometry& view, const Geometry& base);

/// What `view` sees of `t` if t is laid out as `base`.
///   t  base.shape   →  view.shape
/// grad: t, twice differentiable.
LATHE_API Tensor gather_strided(const Tensor& t, const Geometry& base, const Geometry& view);

}  // namespace lathe
