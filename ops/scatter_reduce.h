// Sums, products, means and extremes of the values that go to one position. scatter_reduce.cpp:
// checks, gradients by other ops, and the GPU's form, of other ops;
// index_kernels/scatter_reduce_cpu.cpp: the CPU's loop.
#pragma once

#include "lathe/core/tensor.h"

namespace lathe {

enum class ScatterReduction : uint8_t { kSum, kProd, kMean, kAmax, kAmin };

struct ScatterReduceOptions {
  bool include_self = true;  // false: x's element does not count where source has one
};
/// A copy of x in which element [i,index[i,j,k],k] (for dim = 1) is the sum, product, mean, largest
/// or smallest of itself and all source[i,j,k] that go there. Other elements keep their value.
///   index   i64 or i32, in range; as many dimensions as x; each at most as long as x's, but `dim`
///           may have any length
///   source  x's dtype; no dimension shorter than index's; only the part of index's shape is read
///   →       x's shape
/// The CPU combines values in the order of index. A GPU multiplies in pairs and takes x last, so a
/// product's last bits may differ from the CPU's. The bits do not depend on the run, the number of
/// threads, a recorded gradient or a debug scope.
/// A mean of integers is rounded down. NaN is the largest and the smallest.
/// Any strides, 0-d and zero-size.
/// dtypes: numbers; half types are computed in f32 and rounded once.
/// grad: x, source, twice differentiable. Equal extremes share the gradient, NaNs too. The gradient
/// of a product divides by nothing, so factors of 0 get theirs. An infinity at one position does
/// not affect the gradients of another.
/// amp: none, the result follows x.
/// throws: IndexError for an index out of range (on a GPU the next call that waits for the device
/// throws it) or a dimension out of range; ShapeError, DTypeError, DeviceError.
LATHE_API Tensor scatter_reduce(const Tensor& x, int64_t dim, const Tensor& index,
                                const Tensor& source, ScatterReduction reduction,
                                const ScatterReduceOptions& options = {});

namespace cpu {
/// Combines each element of x with the element of y at its index along dim, in the order of index:
/// y's becomes their product (kProd), the larger (kAmax) or the smaller (kAmin) of them.
///   x  index's shape, y's dtype, any strides     index  i64
void scatter_reduce(ScatterReduction reduction, const Tensor& y, const Tensor& x, int dim,
                    const Tensor& index);
}  // namespace cpu

}  // namespace lathe
