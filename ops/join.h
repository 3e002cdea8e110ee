// Joining tensors (join.cpp). If the parts have different dtypes, the result has the promoted
// dtype. The parts may have any strides and zero sizes.
// amp: none, the result follows its parts.
#pragma once

#include "lathe/core/tensor.h"

namespace lathe {

/// Joins the parts one after another along `dim`. Their other sizes must be equal; a part of shape
/// [0] is skipped. The result is NHWC if all parts are.
/// grad: every part, twice differentiable.
/// throws: ValueError for no parts; IndexError for a dimension out of range; ShapeError,
/// DeviceError.
LATHE_API Tensor cat(const Tensors& parts, int64_t dim = 0);

/// Joins parts of one shape along a new dimension `dim` of the result.
/// grad: every part, twice differentiable.
/// throws: ValueError for no parts; IndexError for a dimension out of range; ShapeError,
/// DeviceError.
LATHE_API Tensor stack(const Tensors& parts, int64_t dim = 0);

/// cat along columns (dimension 1, or 0 if the parts are 1-d), along rows (dimension 0), or along
/// depth (dimension 2). Parts with fewer dimensions than that first get dimensions of size 1: [n]
/// becomes a row [1,n], for dstack [1,n,1].
/// grad: every part, twice differentiable.   throws: as cat.
LATHE_API Tensor hstack(const Tensors& parts);
LATHE_API Tensor vstack(const Tensors& parts);
LATHE_API Tensor dstack(const Tensors& parts);

}  // namespace lathe
