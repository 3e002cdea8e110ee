// Extremes with their index: checks and gradient. Contracts: argmax.h; kernels:
// reduce_kernels/argmax_cpu.cpp, argmax_cuda.cu.
#include "lathe/ops/argmax.h"

#include "lathe/autograd/record.h"
#include "lathe/core/dispatch.h"
#include "lathe/core/hooks/range.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/index.h"
#include "lathe/ops/lines.h"
#include "lathe/ops/views.h"

namespace lathe {

using autograd::Needs;

namespace {

struct Extremes {
  Tensor values, indices;  // the reduced dimension has size 1
};

/// Acts 2 and 3 along dimension `dim`.
Extremes find(const char* op, bool largest, const Tensor& x, int dim, bool want_values) {
  Shape kept = x.shape();
  if (x.ndim() > 0) kept[dim] = 1;
  const Lines lines = lines_of(x.shape(), dim);
  LATHE_CHECK(ShapeError, lines.n > 0, op, ": dimension ", dim, " has no elements (x: ", x, ")");

  Extremes y{{}, empty(kept, {.dtype = kI64, .device = x.device()})};
  if (want_values) y.values = empty(kept, {.dtype = x.dtype(), .device = x.device()});
  LATHE_DISPATCH(x.device(),
                 extreme(largest, y.values, y.indices, contiguous(x), lines.n, lines.inner));
  return y;
}

ValuesAndIndices along(const char* op, bool largest, const Tensor& x, int64_t dim_in,
                       ReduceOptions opt) {
  const profile::OpRange range(op, {x});
  const int dim = wrap_dim(op, dim_in, x.ndim());
  const auto [values, indices] = find(op, largest, x.detach(), dim, true);
  autograd::record(
      op, values, {x},
      [at = autograd::Saved(indices), in = x.shape(), dim](const Tensor& dy, const Needs&) {
        return Tensors{scatter_add(zeros(in, {.dtype = dy.dtype(), .device = dy.device()}), dim,
                                   at.get(), dy)};
      });
  if (opt.keepdim || x.ndim() == 0) return {values, indices};
  return {squeeze(values, dim), squeeze(indices, dim)};
}

Tensor index_along(const char* op, bool largest, const Tensor& x, int64_t dim_in,
                   ReduceOptions opt) {
  const profile::OpRange range(op, {x});
  const int dim = wrap_dim(op, dim_in, x.ndim());
  const Tensor indices = find(op, largest, x.detach(), dim, false).indices;
  profile::note_output(indices);
  return opt.keepdim || x.ndim() == 0 ? indices : squeeze(indices, dim);
}

Tensor index_in_all(const char* op, bool largest, const Tensor& x, ReduceOptions opt) {
  LATHE_CHECK(ShapeError, x.numel() > 0, op, ": the tensor has no elements (x: ", x, ")");
  const Tensor index = index_along(op, largest, flatten(x.detach()), 0, {});
  return opt.keepdim ? view(index, Dims::filled(x.ndim(), 1)) : index;
}

}  // namespace

ValuesAndIndices max(const Tensor& x, int64_t dim, ReduceOptions opt) {
  return along("max", true, x, dim, opt);
}
ValuesAndIndices min(const Tensor& x, int64_t dim, ReduceOptions opt) {
  return along("min", false, x, dim, opt);
}
Tensor argmax(const Tensor& x) { return index_in_all("argmax", true, x, {}); }
Tensor argmax(const Tensor& x, ReduceOptions opt) { return index_in_all("argmax", true, x, opt); }
Tensor argmax(const Tensor& x, int64_t dim, ReduceOptions opt) {
  return index_along("argmax", true, x, dim, opt);
}
Tensor argmin(const Tensor& x) { return index_in_all("argmin", false, x, {}); }
Tensor argmin(const Tensor& x, ReduceOptions opt) { return index_in_all("argmin", false, x, opt); }
Tensor argmin(const Tensor& x, int64_t dim, ReduceOptions opt) {
  return index_along("argmin", false, x, dim, opt);
}

}  // namespace lathe
