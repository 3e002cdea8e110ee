// Boxes of objects in images (boxes.cpp, made of other ops): (x1, y1, x2, y2) with x1 <= x2 and
// y1 <= y2. The names and numbers are those of torchvision.ops.
//   boxes  [N,4]
// throws: ShapeError, DTypeError, DeviceError.
#pragma once

#include "lathe/core/tensor.h"

namespace lathe {

/// (x2 - x1) (y2 - y1).
///   →  [N]
/// dtypes: floats.   grad: boxes, twice differentiable.
LATHE_API Tensor box_area(const Tensor& boxes);

/// The area that each box of a shares with each box of b, divided by the area that they cover
/// together.
///   a  [N,4]   b  [M,4]   →  [N,M]
/// dtypes: floats, both the same; half types are computed in f32.
/// grad: a, b, twice differentiable.
LATHE_API Tensor box_iou(const Tensor& a, const Tensor& b);

/// Non-maximum suppression: visits the boxes by descending score, and drops a box if its box_iou
/// with a box kept before is above `threshold`. Of boxes with equal scores, the first one is
/// visited first. Waits for the device; computed on the CPU.
///   scores  [N]   →  i64 [K]: the indices of the kept boxes, by descending score
/// dtypes: floats.   grad: none.
LATHE_API Tensor nms(const Tensor& boxes, const Tensor& scores, double threshold);

}  // namespace lathe
