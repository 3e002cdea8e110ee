// Reductions: many elements to one, over any dimensions. reduce.cpp: checks and gradients.
// reduce_kernels/: kernels and the order of sums.
//   x        any shape, any strides, 0-d and zero-size
//   dims     the dimensions to reduce; an empty list means all
//   →        x's shape without `dims`; with {.keepdim = true} they stay, with size 1
// Half types are summed in f32. Sums are computed in blocks: the error grows with the logarithm of
// the count, not with the count. Blocks depend on the shape only, so the number of threads never
// changes a result.
// dtypes: f16, bf16, f32, f64; integers and bool if the function's comment says so.
// throws: IndexError (dimension out of range or repeated), DTypeError.
// ref: Higham 1993, "The accuracy of floating point summation"; Chan, Golub, LeVeque 1979 for the
// variance.
#pragma once

#include <optional>

#include "lathe/core/tensor.h"
#include "lathe/ops/argmax.h"

namespace lathe {

/// One name per reduction; the arithmetic is in ops/reduce_kernels/reduce_math.h.
enum class ReduceOp : uint8_t {
  kSum,
  kMean,
  kProd,
  kAmax,
  kAmin,
  kAll,
  kAny,
  kVar,
  kStd,
  kNorm,
  kLogSumExp
};

struct VarOptions {
  bool unbiased = true;                    // divide by n - 1 instead of n
  bool keepdim = false;                    // true: a reduced dimension stays, with size 1
  std::optional<int64_t> correction = {};  // divide by n - correction, whatever `unbiased` says
};

/// The sum; 0 if there are no elements. Integers and bool → i64.
/// grad: x, twice differentiable.   amp: float.
LATHE_API Tensor sum(const Tensor& x);
LATHE_API Tensor sum(const Tensor& x, const Dims& dims, ReduceOptions options = {});

/// The arithmetic mean; NaN if there are no elements.
/// grad: x, twice differentiable.   throws: DTypeError for integers.
LATHE_API Tensor mean(const Tensor& x);
LATHE_API Tensor mean(const Tensor& x, const Dims& dims, ReduceOptions options = {});

/// The product; 1 if there are no elements. Integers and bool → i64.
/// grad: x, twice differentiable, also where x is 0.   amp: float.
LATHE_API Tensor prod(const Tensor& x);
LATHE_API Tensor prod(const Tensor& x, const Dims& dims, ReduceOptions options = {});

/// amax() returns the largest element, amin() the smallest; NaN if any element is NaN. max() and
/// min() of ops/argmax.h also return the element's index.
/// dtypes: any.   grad: x, twice differentiable; elements that are equal to the result share the
/// gradient evenly, also several NaN.
/// throws: ShapeError if a reduced dimension has size 0.
LATHE_API Tensor amax(const Tensor& x, const Dims& dims = {}, ReduceOptions options = {});
LATHE_API Tensor amin(const Tensor& x, const Dims& dims = {}, ReduceOptions options = {});

/// The largest and smallest element of the whole tensor, as amax and amin.
LATHE_API Tensor max(const Tensor& x);
LATHE_API Tensor min(const Tensor& x);

/// all() is true if every element differs from 0, or there are no elements. any() is true if at
/// least one element differs from 0.
/// dtypes: any → bool.   grad: none.
LATHE_API Tensor all(const Tensor& x, const Dims& dims = {}, ReduceOptions options = {});
LATHE_API Tensor any(const Tensor& x, const Dims& dims = {}, ReduceOptions options = {});

/// var() returns the variance, the sum of the squared deviations from the mean divided by d; std()
/// returns its root. For n elements d is
///   n - correction  if options.correction is set
///   n - 1           otherwise, if options.unbiased is set
///   n               otherwise
/// d is never below 0. If d is 0, equal numbers give NaN and others +inf.
/// grad: x, twice differentiable; 0 where the standard deviation is 0.
LATHE_API Tensor var(const Tensor& x, const Dims& dims = {}, VarOptions options = {});
LATHE_API Tensor std(const Tensor& x, const Dims& dims = {}, VarOptions options = {});

/// The Euclidean norm sqrt(sum x^2). The sum is in f64, so f32 numbers neither overflow nor lose
/// digits.
/// grad: x, twice differentiable; 0 where the norm is 0.   amp: float.
LATHE_API Tensor norm(const Tensor& x, const Dims& dims = {}, ReduceOptions options = {});

/// log(sum exp x) without overflow. -inf if there are no elements or all are -inf; +inf if one
/// element is +inf.
/// grad: x, twice differentiable.   amp: float.
LATHE_API Tensor logsumexp(const Tensor& x, const Dims& dims = {}, ReduceOptions options = {});

// Like the overloads above, with keepdim as true or false.
inline Tensor sum(const Tensor& x, const Dims& dims, KeepDim auto keepdim) {
  return sum(x, dims, {keepdim});
}
inline Tensor mean(const Tensor& x, const Dims& dims, KeepDim auto keepdim) {
  return mean(x, dims, {keepdim});
}
inline Tensor prod(const Tensor& x, const Dims& dims, KeepDim auto keepdim) {
  return prod(x, dims, {keepdim});
}
inline Tensor amax(const Tensor& x, const Dims& dims, KeepDim auto keepdim) {
  return amax(x, dims, {keepdim});
}
inline Tensor amin(const Tensor& x, const Dims& dims, KeepDim auto keepdim) {
  return amin(x, dims, {keepdim});
}
inline Tensor all(const Tensor& x, const Dims& dims, KeepDim auto keepdim) {
  return all(x, dims, {keepdim});
}
inline Tensor any(const Tensor& x, const Dims& dims, KeepDim auto keepdim) {
  return any(x, dims, {keepdim});
}
inline Tensor norm(const Tensor& x, const Dims& dims, KeepDim auto keepdim) {
  return norm(x, dims, {keepdim});
}
template <class Options = ReduceOptions>  // PyTorch's norm(x, 1) is vector_norm(x, 1)
Tensor norm(const Tensor& x, std::integral auto, Options = {}) = delete;
inline Tensor logsumexp(const Tensor& x, const Dims& dims, KeepDim auto keepdim) {
  return logsumexp(x, dims, {keepdim});
}

/// The gradient of broadcasting `shape` to g's shape: sums g over the dimensions that the broadcast
/// added or stretched.
///   g  a shape that `shape` broadcasts to   →  `shape`; g itself if it already has that shape
/// grad: g, twice differentiable.   amp: none, the result follows g.   throws: ShapeError.
LATHE_API Tensor sum_to_shape(const Tensor& g, const Shape& shape);

namespace cpu {
/// out = op over the dimensions in which out has size 1 and x has not; both have the same number of
/// dimensions. out has x's dtype; i64 for kSum and kProd of integers, bool for kAll and kAny.
/// kVar and kStd divide by n - correction.
void reduce(ReduceOp op, const Tensor& out, const Tensor& x, int64_t correction);
}  // namespace cpu
namespace cuda {
void reduce(ReduceOp op, const Tensor& out, const Tensor& x, int64_t correction);
}  // namespace cuda

}  // namespace lathe
