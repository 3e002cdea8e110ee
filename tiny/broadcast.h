// Broadcasting: an op reads a tensor as if it were repeated along dimensions that it lacks, or in
// which its size is 1. Shapes are aligned at the right: [3,1] and [4] give [3,4]. Nothing is
// copied: the stride of a repeated dimension is 0.
//
// The gradient of broadcasting is a sum. If y_i = x for i = 1 … n, then
//
//   dL/dx = sum over i of dL/dy_i * dy_i/dx = sum over i of dL/dy_i
//
// because each dy_i/dx is 1. And the gradient of a sum y = x_1 + … + x_n is broadcasting: each dx_i
// is dy. So expand() and sum_to() below are each other's gradient.
#pragma once

#include "tape.h"

namespace tiny {

/// The shape of an op over a and b.
/// throws: ShapeError naming both, if a size differs and is not 1.
inline Shape broadcast_shape(const std::string& op, const Shape& a, const Shape& b) {
  Shape shape(std::max(a.size(), b.size()));
  for (size_t back = 1; back <= shape.size(); ++back) {  // from the right
    const int64_t size_a = back <= a.size() ? a[a.size() - back] : 1;
    const int64_t size_b = back <= b.size() ? b[b.size() - back] : 1;
    check<ShapeError>(size_a == size_b || size_a == 1 || size_b == 1, op, ": shapes ", a, " and ",
                      b, " do not broadcast: ", size_a, " and ", size_b);
    shape[shape.size() - back] = size_a == 1 ? size_b : size_a;
  }
  return shape;
}

/// The strides with which x is read as if it had `shape`: 0 where it is repeated.
inline Strides broadcast_strides(const Tensor& x, const Shape& shape) {
  check<ShapeError>(broadcast_shape("expand", x.shape(), shape) == shape, "expand: ", x.shape(),
                    " does not broadcast to ", shape);
  Strides strides(shape.size(), 0);
  const size_t added = shape.size() - x.ndim();
  for (size_t d = 0; d < x.ndim(); ++d)
    if (x.dim(d) == shape[d + added]) strides[d + added] = x.strides()[d];
  return strides;
}

inline Tensor sum_to(const Tensor& x, const Shape& shape);

/// x, read as if it had `shape`: a view with strides of 0.
/// throws: ShapeError if it does not broadcast to `shape`.
inline Tensor expand(const Tensor& x, const Shape& shape) {
  const Tensor y = x.as_strided(shape, broadcast_strides(x, shape), x.offset());
  return record("expand", y, {x}, [from = x.shape()](const Tensor& dy, const Needs&) {
    return std::vector{sum_to(dy, from)};
  });
}

/// The sum of x over the dimensions along which expanding `shape` to x's shape repeats.
/// y is walked as if it had x's shape. Where it is repeated its stride is 0, so all that is to be
/// added meets at one place: a sum over any dimensions is one line.
/// throws: ShapeError if `shape` does not broadcast to x's.
inline Tensor sum_to(const Tensor& x, const Shape& shape) {
  Tensor y(shape);
  double* sum = y.data();
  const double* value = x.data();
  for_each_offset<2>(x.shape(), {broadcast_strides(y, x.shape()), x.strides()},
                     [&](const auto& at) { sum[at[0]] += value[at[1]]; });
  return record("sum_to", y, {x}, [from = x.shape()](const Tensor& dy, const Needs&) {
    return std::vector{expand(dy, from)};
  });
}

/// The sum of all elements, of the shape [].
inline Tensor sum(const Tensor& x) { return sum_to(x, {}); }

}  // namespace tiny

// What the real one adds, and why
// - ops/reduce.h sums over any dimensions. The order in which a sum adds decides its last digits,
//   so it is fixed, whatever the number of threads (ops/reduce_kernels/reduce_order_cpu.h).
