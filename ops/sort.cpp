// sort, argsort and topk: checks and gradient. Contracts: sort.h; kernels:
// index_kernels/sort_cpu.cpp, sort_cuda.cu.
#include "lathe/ops/sort.h"

#include "lathe/autograd/record.h"
#include "lathe/core/dispatch.h"
#include "lathe/core/hooks/range.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/index.h"
#include "lathe/ops/lines.h"

namespace lathe {

using autograd::Needs;

/// The first k along `dim`: all three ops are special cases of it.
static ValuesAndIndices first_in_order(const char* op, const Tensor& x, int64_t k, int dim,
                                       bool descending) {
  const Lines lines = lines_of(x.shape(), dim);
  Shape shape = x.shape();
  if (x.ndim() > 0) shape[dim] = k;
  ValuesAndIndices y{empty(shape, {.dtype = x.dtype(), .device = x.device()}),
                     empty(shape, {.dtype = kI64, .device = x.device()})};
  LATHE_DISPATCH(x.device(), sort(y.values, y.indices, contiguous(x.detach()), lines.n, k,
                                  lines.inner, descending));
  autograd::record(
      op, y.values, {x},
      [at = autograd::Saved(y.indices), in = x.shape(), dim](const Tensor& dy, const Needs&) {
        return Tensors{scatter_add(zeros(in, {.dtype = dy.dtype(), .device = dy.device()}), dim,
                                   at.get(), dy)};
      });
  return y;
}

ValuesAndIndices sort(const Tensor& x, int64_t dim_in, SortOptions opt) {
  const profile::OpRange range("sort", {x});
  const int dim = wrap_dim("sort", dim_in, x.ndim());
  return first_in_order("sort", x, x.ndim() == 0 ? 1 : x.shape()[dim], dim, opt.descending);
}

Tensor argsort(const Tensor& x, int64_t dim_in, SortOptions opt) {
  const profile::OpRange range("argsort", {x});
  const int dim = wrap_dim("argsort", dim_in, x.ndim());
  return first_in_order("argsort", x.detach(), x.ndim() == 0 ? 1 : x.shape()[dim], dim,
                        opt.descending)
      .indices;
}

ValuesAndIndices topk(const Tensor& x, int64_t k, int64_t dim_in, TopkOptions opt) {
  const profile::OpRange range("topk", {x});
  const int dim = wrap_dim("topk", dim_in, x.ndim());
  const int64_t n = x.ndim() == 0 ? 1 : x.shape()[dim];
  LATHE_CHECK(ValueError, k >= 0 && k <= n, "topk: k must be in [0, ", n, "], got ", k, " (x: ", x,
              ")");
  LATHE_CHECK(ValueError, x.ndim() > 0 || k == 1, "topk: k of a 0-d tensor must be 1, got ", k);
  return first_in_order("topk", x, k, dim, opt.largest);
}

}  // namespace lathe
