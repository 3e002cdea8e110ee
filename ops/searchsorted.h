// Where values belong in a sorted sequence. searchsorted.cpp: checks;
// index_kernels/searchsorted_cpu.cpp, searchsorted_cuda.cu: kernels; searchsorted_math.h: the
// search.
#pragma once

#include "lathe/core/tensor.h"

namespace lathe {

struct SearchOptions {
  bool right = false;  // true: behind equal elements instead of before them
};

/// For each value, the position where inserting it keeps the row `sorted` in order. This is the
/// number of elements of the row that are smaller than the value (with .right: smaller or equal). A
/// NaN in `values` gets n.
///   sorted  [n], one row for all values; or values' shape with n in place of the last size
///   →       i64 of values' shape
/// `sorted` must be in ascending order and without NaN; this is not checked. Tensors may
/// have any strides, and a size of zero.
/// dtypes: any, promoted as in ops/binary.h.   grad: none.
/// throws: ShapeError, DeviceError.
LATHE_API Tensor searchsorted(const Tensor& sorted, const Tensor& values,
                              const SearchOptions& options = {});

/// For each value, the number of the interval between the sorted `boundaries` [n] in which it lies:
/// searchsorted(boundaries, values).
///   →  i64 of values' shape, in [0, n]
/// throws: ShapeError, DeviceError.
LATHE_API Tensor bucketize(const Tensor& values, const Tensor& boundaries,
                           const SearchOptions& options = {});

namespace cpu {
/// sorted is [rows,n] or [1,n]; values and out are [rows,m]. All are contiguous; f32, f64 or i64.
void searchsorted(const Tensor& out, const Tensor& sorted, const Tensor& values, bool right);
}  // namespace cpu
namespace cuda {
void searchsorted(const Tensor& out, const Tensor& sorted, const Tensor& values, bool right);
}  // namespace cuda

}  // namespace lathe
