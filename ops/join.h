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

/// hstack() is cat along dimension 1 (0 if the parts are 1-d), vstack() along dimension 0, dstack()
/// along dimension 2. vstack() first reshapes a part [n] to [1,n]. dstack() first reshapes a part
/// [n] to [1,n,1], and a part [m,n] to [m,n,1].
/// grad: every part, twice differentiable.   throws: as cat.
LATHE_API Tensor hstack(const Tensors& parts);
LATHE_API Tensor vstack(const Tensors& parts);
LATHE_API Tensor dstack(const Tensors& parts);

}  // namespace lathe
