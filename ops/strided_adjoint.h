// The adjoint pair behind the gradients of slice, select, narrow, as_strided and in-place writes
// through views.
#pragma once

#include "lathe/core/tensor.h"

namespace lathe {

/// How a tensor lies in a storage: shape, strides and offset, in elements.
struct Geometry {
  Shape shape;
  Strides strides;
  int64_t offset = 0;
};

/// Row-major geometry of `shape` from offset 0.
LATHE_API Geometry dense_geometry(const Shape& shape);
LATHE_API Geometry geometry_of(const Tensor& t);

/// A tensor laid out as `base`, zero everywhere, to which `values` was added where `view` looks.
/// values  view.shape  →  base.shape.   Overlapping elements of the view add up.   grad: values
/// (twice).
LATHE_API Tensor scatter_strided(const Tensor& values, const Geometry& view, const Geometry& base);

/// What `view` sees of `t` when t is laid out as `base`.   t  base.shape  →  view.shape.   grad: t
/// (twice).
LATHE_API Tensor gather_strided(const Tensor& t, const Geometry& base, const Geometry& view);

}  // namespace lathe
