// Diagonals: strided views, and their adjoint. Contracts: diagonal.h.
#include "lathe/ops/diagonal.h"

#include <cmath>

#include "lathe/core/checked_size.h"
#include "lathe/core/hooks/range.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/rearrange.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/strided_adjoint.h"
#include "lathe/ops/views.h"

namespace lathe {

/// Where the diagonals lie in a tensor of geometry x.
static Geometry diagonals_of(const Geometry& x, int64_t offset, int dim1, int dim2) {
  const int64_t down = std::max<int64_t>(-offset, 0), right = std::max<int64_t>(offset, 0);
  const int64_t rows = x.shape[dim1], columns = x.shape[dim2];
  const int64_t length =
      down >= rows || right >= columns ? 0 : std::min(rows - down, columns - right);
  Geometry d = x;
  if (length > 0) d.offset += down * x.strides[dim1] + right * x.strides[dim2];
  d.shape.erase(std::max(dim1, dim2));
  d.shape.erase(std::min(dim1, dim2));
  d.strides.erase(std::max(dim1, dim2));
  d.strides.erase(std::min(dim1, dim2));
  d.shape.push_back(length);
  d.strides.push_back(x.strides[dim1] + x.strides[dim2]);
  return d;
}

Tensor diagonal(const Tensor& x_in, const DiagonalOptions& opt) {
  const profile::OpRange range("diagonal", {x_in}, profile::Kind::kView);
  LATHE_CHECK(ShapeError, x_in.ndim() >= 2, "diagonal: x must have 2 or more dimensions (x: ", x_in,
              ")");
  dim_mask("diagonal", {opt.dim1, opt.dim2}, x_in.ndim());
  LATHE_CHECK(ValueError, opt.offset > INT64_MIN, "diagonal: offset ", opt.offset,
              " is out of range");
  // as_strided refuses a gradient into shared memory.
  const Tensor x = x_in.requires_grad() && has_overlap(x_in) ? contiguous(x_in) : x_in;
  const Geometry d =
      diagonals_of(geometry_of(x), opt.offset, wrap_dim("diagonal", opt.dim1, x.ndim()),
                   wrap_dim("diagonal", opt.dim2, x.ndim()));
  return as_strided(x, d.shape, d.strides, d.offset);
}

Tensor diag_embed(const Tensor& x, const DiagEmbedOptions& opt) {
  const profile::OpRange range("diag_embed", {x});
  LATHE_CHECK(ShapeError, x.ndim() >= 1, "diag_embed: x must have a dimension (x: ", x, ")");
  const int ndim = x.ndim() + 1;
  dim_mask("diag_embed", {opt.dim1, opt.dim2}, ndim);
  const int dim1 = wrap_dim("diag_embed", opt.dim1, ndim);
  const int dim2 = wrap_dim("diag_embed", opt.dim2, ndim);
  LATHE_CHECK(ValueError, opt.offset > INT64_MIN, "diag_embed: offset ", opt.offset,
              " is out of range");
  const int64_t size = (CheckedSize(x.dim(-1)) + std::abs(opt.offset))
                           .value_or_throw<ShapeError>("diag_embed: offset ", opt.offset,
                                                       " is too large (x: ", x, ")");
  Shape shape = x.shape();
  shape.erase(x.ndim() - 1);
  shape.push_back(size);
  shape.push_back(size);
  const Geometry matrices = dense_geometry(shape);
  const Tensor y =
      scatter_strided(x, diagonals_of(matrices, opt.offset, ndim - 2, ndim - 1), matrices);
  return movedim(y, {ndim - 2, ndim - 1}, {dim1, dim2});
}

Tensor diag(const Tensor& x, int64_t offset) {
  const profile::OpRange range("diag", {x});
  LATHE_CHECK(ShapeError, x.ndim() == 1 || x.ndim() == 2, "diag: x must be [n] or [m,n] (x: ", x,
              ")");
  return x.ndim() == 1 ? diag_embed(x, {.offset = offset}) : clone(diagonal(x, {.offset = offset}));
}

Tensor trace(const Tensor& x) {
  const profile::OpRange range("trace", {x});
  LATHE_CHECK(ShapeError, x.ndim() == 2, "trace: x must be a matrix (x: ", x, ")");
  return sum(diagonal(x));
}

}  // namespace lathe
