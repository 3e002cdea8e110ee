// How often each value occurs (counting.cpp, made of other ops). Any strides, zero-size.
#pragma once

#include "lathe/core/tensor.h"

namespace lathe {

struct BincountOptions {
  Tensor weights = {};     // [n], floating: what each element counts for, in place of 1
  int64_t min_length = 0;  // the least size of the result
};
/// y[v] = how often v occurs. Waits for the device, because the largest number decides the size.
///   x  [n], integers >= 0   →  [max(x) + 1] or longer: i64, or weights' dtype
/// dtypes: i64, i32.   grad: weights (twice).
/// throws: IndexError for a negative number; ValueError, ShapeError, DTypeError, DeviceError.
LATHE_API Tensor bincount(const Tensor& x, const BincountOptions& options = {});

struct HistcOptions {
  int64_t bins = 100;
  double low = 0, high = 0;  // both 0: the smallest and largest element; then it waits
};
/// The number of elements in each of `bins` intervals of equal width from low to high; high itself
/// belongs to the last. Elements outside, and NaN, do not count. If low and high are equal, the
/// range is widened by 1 on both sides.
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
/// The different values of x, flattened. NaN differs from NaN. Waits for the device, because their
/// number is the size of the result.
/// dtypes: any.   grad: none.
LATHE_API Uniques unique(const Tensor& x);

}  // namespace lathe
