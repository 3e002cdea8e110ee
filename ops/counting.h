// How often each value occurs (counting.cpp, made of other ops). Any strides, zero-size.
#pragma once

#include "lathe/core/tensor.h"

namespace lathe {

struct BincountOptions {
  Tensor weights = {};     // [n], floating: the weight of each element; undefined: all 1
  int64_t min_length = 0;  // the smallest size of the result
};
/// y[v] is the number of elements of x that are v, or the sum of their weights. Waits for the
/// device, because the size of y depends on max(x).
///   x  [n], integers >= 0   →  i64 or weights' dtype, [max(x) + 1] or, if longer, [min_length]
/// dtypes: i64, i32.   grad: weights, twice differentiable.
/// throws: IndexError for a negative number; ValueError for a negative min_length; ShapeError,
/// DTypeError, DeviceError.
LATHE_API Tensor bincount(const Tensor& x, const BincountOptions& options = {});

struct HistcOptions {
  int64_t bins = 100;
  double low = 0, high = 0;  // both 0: the smallest and largest element
};
/// Counts the elements in each of `bins` intervals of equal width from low to high; the last one
/// includes high. Elements outside the range, and NaN, are not counted. If low and high are both 0,
/// the range goes from x's smallest to its largest element, and histc waits for the device. A range
/// of width 0 is widened by 1 on both sides.
///   x  any shape   →  [bins], x's dtype
/// dtypes: floats.   grad: none.
/// throws: ValueError unless bins > 0 and low <= high, both finite; DTypeError.
LATHE_API Tensor histc(const Tensor& x, const HistcOptions& options = {});

/// The result of unique.
struct Uniques {
  Tensor values;   // [k], in ascending order
  Tensor inverse;  // x's shape, i64: where in `values` each element is
  Tensor counts;   // [k], i64
};
/// The distinct values of x, as if it were flattened. Each NaN counts as distinct. Waits for the
/// device, because the size of the result depends on the values.
/// dtypes: any.   grad: none.
LATHE_API Uniques unique(const Tensor& x);

}  // namespace lathe
