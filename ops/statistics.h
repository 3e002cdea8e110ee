// Numbers that describe a tensor or its lines (statistics.cpp, made of other ops). NaN counts as
// the largest number where values are put in order.
// Any strides.
// amp: none, the dtype stays.
// throws: IndexError (dimension out of range or repeated), ShapeError (an empty line), ValueError,
// DTypeError.
#pragma once

#include <optional>

#include "lathe/core/tensor.h"
#include "lathe/ops/reduce.h"

namespace lathe {

struct VarAndMean {
  Tensor var, mean;
};
/// var() and mean() of ops/reduce.h over the same dimensions: `auto [v, m] = var_mean(x, {1});`
/// dtypes: floats.   grad: x, twice differentiable.
LATHE_API VarAndMean var_mean(const Tensor& x, const Dims& dims = {}, VarOptions options = {});

struct StdAndMean {
  Tensor std, mean;
};
/// std() and mean() of ops/reduce.h over the same dimensions.
/// dtypes: floats.   grad: x, twice differentiable.
LATHE_API StdAndMean std_mean(const Tensor& x, const Dims& dims = {}, VarOptions options = {});

/// How many elements differ from 0; NaN does.
///   →  i64
/// dtypes: any.   grad: none.
LATHE_API Tensor count_nonzero(const Tensor& x, const Dims& dims = {});

/// The middle element of each line along `dim` in ascending order, and its index. If the line has
/// an even number of elements, the lower of the two middle ones. If it has a NaN, the first NaN.
/// The overload without `dim` takes all elements as one line and returns no index. For a floating x
/// without elements it returns NaN.
/// dtypes: any.   grad: x, twice differentiable, to the element at the index. Without `dim`,
/// elements that are equal to the median share the gradient evenly.
LATHE_API Tensor median(const Tensor& x);
LATHE_API ValuesAndIndices median(const Tensor& x, int64_t dim, ReduceOptions options = {});

/// The k-th smallest element of each line along `dim`, counted from 1, and its index.
/// dtypes: any.   grad: x, twice differentiable, to the element at the index.
/// throws: ValueError for k outside [1, size of dim].
LATHE_API ValuesAndIndices kthvalue(const Tensor& x, int64_t k, int64_t dim = -1,
                                    ReduceOptions options = {});

enum class QuantileMode : uint8_t { kLinear, kLower, kHigher, kMidpoint, kNearest };
struct QuantileOptions {
  std::optional<int64_t> dim = {};  // none: all elements as one line
  bool keepdim = false;
  QuantileMode interpolation = QuantileMode::kLinear;  // between the two nearest elements
};
/// The number below which the share q of each line lies: the element at position q (n - 1) of the
/// line in ascending order. NaN if the line has one.
///   q  in [0, 1]; a tensor [Q] puts a dimension of Q results in front
/// dtypes: floats; q has x's dtype; half types are computed in f32.
/// grad: x, twice differentiable.
/// throws: ValueError for a q outside [0, 1], which waits for the device.
LATHE_API Tensor quantile(const Tensor& x, double q, const QuantileOptions& options = {});
LATHE_API Tensor quantile(const Tensor& x, const Tensor& q, const QuantileOptions& options = {});

/// y[i] is the largest (smallest) of x[0], …, x[i] along `dim`, with its index. If several are
/// equal, the index is that of the last one. From the first NaN on, y is NaN. Takes log2(size of
/// dim) passes.
/// dtypes: any.   grad: x, twice differentiable, to the element at the index.
LATHE_API ValuesAndIndices cummax(const Tensor& x, int64_t dim);
LATHE_API ValuesAndIndices cummin(const Tensor& x, int64_t dim);

}  // namespace lathe
