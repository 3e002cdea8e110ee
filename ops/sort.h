// Order along one dimension: sort, argsort, topk. sort.cpp: checks and gradients;
// index_kernels/sort_cpu.cpp, sort_cuda.cu: kernels; sort_order.h: the comparison.
//   x      any shape, any number dtype or bool
//   →      values of x's dtype and i64 indices into `dim`, in order
// Equal elements keep their order, also when descending; NaN counts as the largest number. The
// result depends on neither the device nor the number of threads.
// throws: IndexError (dimension out of range).
#pragma once

#include "lathe/core/tensor.h"
#include "lathe/ops/argmax.h"

namespace lathe {

struct SortOptions {
  bool descending = false;
};
/// The elements of each line along `dim`, sorted, and their indices.
/// grad: x, twice differentiable; the gradient of a value goes to the element of x that has this
/// value.
LATHE_API ValuesAndIndices sort(const Tensor& x, int64_t dim = -1, SortOptions options = {});

/// The indices that sort() returns, without the values.
/// grad: none.
LATHE_API Tensor argsort(const Tensor& x, int64_t dim = -1, SortOptions options = {});

struct TopkOptions {
  bool largest = true;  // false: the k smallest
};
/// The k largest elements of each line along `dim` and their indices, largest first. With largest =
/// false: the k smallest, smallest first.
/// grad: as sort.   throws: ValueError for k outside [0, size of dim].
LATHE_API ValuesAndIndices topk(const Tensor& x, int64_t k, int64_t dim = -1,
                                TopkOptions options = {});

namespace cpu {
/// The first k of each line of x [outer, n, inner], in order. x is contiguous; values and indices
/// are [outer, k, inner].
void sort(const Tensor& values, const Tensor& indices, const Tensor& x, int64_t n, int64_t k,
          int64_t inner, bool descending);
}  // namespace cpu
namespace cuda {
void sort(const Tensor& values, const Tensor& indices, const Tensor& x, int64_t n, int64_t k,
          int64_t inner, bool descending);
}  // namespace cuda

}  // namespace lathe
