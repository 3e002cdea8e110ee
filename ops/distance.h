// Norms of any order, distances and similarities (distance.cpp, made of other ops). Any strides,
// 0-d and zero-size.
// dtypes: floats.   grad: every tensor, twice differentiable.   amp: float.
// throws: ShapeError, DTypeError, DeviceError, IndexError.
#pragma once

#include "lathe/core/tensor.h"

namespace lathe {

/// (sum |x|^p)^(1/p) over `dims`, or over all dimensions if `dims` is empty.
///   p = +inf, -inf  the largest, the smallest |x|
///   p = 0           the number of elements that are not 0; gradient 0
/// grad: x, twice differentiable; 0 where x is 0 (p > 0). For an infinite p, elements that share
/// the extreme |x| divide the gradient evenly.
/// throws: ValueError if p is NaN; ShapeError for an infinite p over no elements; DTypeError,
/// IndexError.
LATHE_API Tensor vector_norm(const Tensor& x, double p = 2, const Dims& dims = {},
                             ReduceOptions options = {});

struct NormalizeOptions {
  double p = 2;
  int64_t dim = 1;
  double eps = 1e-12;  // the least divisor
};
/// x / max(vector_norm(x, p, {dim}), eps).
LATHE_API Tensor normalize(const Tensor& x, const NormalizeOptions& options = {});

struct CosineSimilarityOptions {
  int64_t dim = 1;
  double eps = 1e-8;  // the least divisor: smaller norms count as eps
};
/// The cosine of the angle between x1 and x2 along `dim`. The result does not have this dimension.
/// x1 and x2 broadcast.
LATHE_API Tensor cosine_similarity(const Tensor& x1, const Tensor& x2,
                                   const CosineSimilarityOptions& options = {});

struct PairwiseDistanceOptions {
  double p = 2;
  double eps = 1e-6;  // added to each difference, so that equal vectors have a gradient
  bool keepdim = false;
};
/// vector_norm(x1 - x2 + eps, p) over the last dimension. x1 and x2 broadcast.
LATHE_API Tensor pairwise_distance(const Tensor& x1, const Tensor& x2,
                                   const PairwiseDistanceOptions& options = {});

/// The distance of every row of x1 from every row of x2.
///   x1  […,P,D]   x2  […,R,D], leading dimensions broadcast   →  […,P,R]
/// Distances come from differences, so those of near rows are exact; a matrix product would cancel
/// their digits. All P*R*D differences are in memory at the same time, except in the forward pass
/// for p = 2 on the CPU.
/// grad: x1, x2, twice differentiable; 0 where two rows are equal.
/// throws: ValueError for p < 0 or NaN; ShapeError, DTypeError, DeviceError.
LATHE_API Tensor cdist(const Tensor& x1, const Tensor& x2, double p = 2);

namespace cpu {
/// y[n,p,r] = the length of x1[n,p,:] - x2[n,r,:]. All row-major, f32 or f64.
void euclidean_distances(const Tensor& y, const Tensor& x1, const Tensor& x2);
}  // namespace cpu

}  // namespace lathe
