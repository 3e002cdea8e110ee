// Reading from and adding at given positions: checks and gradients. Contracts: index.h; kernels:
// index_kernels/index_cpu.cpp, index_cuda.cu, index_sum_cuda.cu.
//
// There are two pairs of adjoint ops: index_select and index_sum, gather and scatter_sum. Each is
// the other's gradient, so all are differentiable any number of times. index_add and scatter_add
// add x to the sums. Without a gradient a kernel of the CPU does both in one pass.
#include "lathe/ops/index.h"

#include "lathe/autograd/record.h"
#include "lathe/core/dispatch.h"
#include "lathe/core/hooks/range.h"
#include "lathe/core/hooks/watch.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/index_kernels.h"
#include "lathe/ops/lines.h"
#include "lathe/ops/promote.h"
#include "lathe/ops/views.h"
#include "lathe/ops/where.h"

namespace lathe {

using autograd::Needs;
using autograd::Saved;

namespace {

/// The index as the kernels want it.
Tensor checked(const char* op, const Tensor& index, const Tensor& x, int dim) {
  LATHE_CHECK(DTypeError, index.dtype() == kI64 || index.dtype() == kI32, op,
              ": index must be i64 or i32 (index: ", index, ")");
  LATHE_CHECK(DeviceError, index.device() == x.device(), op, ": index is on another device (x: ", x,
              ", index: ", index, ")");
  Tensor wide = cast(index, kI64);
  check_index(op, wide, x.shape()[dim]);
  return wide;
}

void check_added(const char* op, const Tensor& x, const Tensor& source) {
  LATHE_CHECK(DTypeError, source.dtype() == x.dtype(), op, ": source must have x's dtype (x: ", x,
              ", source: ", source, ")");
  LATHE_CHECK(DTypeError, x.dtype() != kBool, op, ": not defined for bool (x: ", x, ")");
  LATHE_CHECK(DeviceError, source.device() == x.device(), op,
              ": source is on another device (x: ", x, ", source: ", source, ")");
}

/// A 0-d tensor counts as one element.
Tensor at_least_1d(const Tensor& t) { return t.ndim() == 0 ? reshape(t, {1}) : t; }
Tensor like_before(const Tensor& y, const Tensor& before) {
  return before.ndim() == 0 ? reshape(y, {}) : y;
}

/// Sums of half numbers are made in f32 and rounded once, at the end. (index_add and scatter_add
/// round again when they add such a sum to x.)
template <class Op>
Tensor in_sum_dtype(const Tensor& x, Op op) {
  return is_half(x.dtype()) ? cast(op(cast(x, kF32)), x.dtype()) : op(x);
}

Shape with_size(Shape shape, int dim, int64_t size) {
  shape[dim] = size;
  return shape;
}

/// Dense x as [outer, n, inner] around `dim`, with no gradient recorded.
Tensor around(const Tensor& x, int dim) {
  const Lines lines = lines_of(x.shape(), dim);
  const Shape shape{lines.outer, lines.n, lines.inner};
  return alias(x, shape, contiguous_strides(shape), x.offset());
}

Tensor select_slices(const Tensor& x, int dim, const Tensor& index);

/// The slices of x, slice k added to slice index[k] of a result with n slices.
Tensor sum_slices(const Tensor& x_in, int dim, const Tensor& index, int64_t n) {
  return in_sum_dtype(x_in, [&](const Tensor& wide) {
    const Tensor x = contiguous(wide);
    Tensor y =
        empty_strided(with_size(x.shape(), dim, n),
                      contiguous_strides(with_size(x.shape(), dim, n)), x.dtype(), x.device());
    LATHE_DISPATCH(x.device(), index_sum(around(y, dim), around(x, dim), index));
    autograd::record("index_sum", y, {x},
                     [dim, index = Saved(index)](const Tensor& dy, const Needs&) {
                       return Tensors{select_slices(dy, dim, index.get())};
                     });
    return y;
  });
}

Tensor select_slices(const Tensor& x_in, int dim, const Tensor& index) {
  const Tensor x = contiguous(x_in);
  const Shape shape = with_size(x.shape(), dim, index.numel());
  Tensor y = empty_strided(shape, contiguous_strides(shape), x.dtype(), x.device());
  LATHE_DISPATCH(x.device(), index_select(around(y, dim), around(x, dim), index));
  autograd::record("index_select", y, {x},
                   [dim, index = Saved(index), n = x.shape()[dim]](const Tensor& dy, const Needs&) {
                     return Tensors{sum_slices(dy, dim, index.get(), n)};
                   });
  return y;
}

Tensor gather_places(const Tensor& x, int dim, const Tensor& index);

/// x, which has index's shape, added at the positions of index in a result of `shape`.
Tensor scatter_places(const Tensor& x_in, int dim, const Tensor& index, const Shape& shape) {
  return in_sum_dtype(x_in, [&](const Tensor& x) {
    Tensor y = empty_strided(shape, contiguous_strides(shape), x.dtype(), x.device());
    LATHE_DISPATCH(x.device(), scatter_sum(y, x, dim, index));
    autograd::record("scatter_sum", y, {x},
                     [dim, index = Saved(index)](const Tensor& dy, const Needs&) {
                       return Tensors{gather_places(dy, dim, index.get())};
                     });
    return y;
  });
}

Tensor gather_places(const Tensor& x, int dim, const Tensor& index) {
  const Shape& shape = index.shape();
  Tensor y = empty_strided(shape, contiguous_strides(shape), x.dtype(), x.device());
  LATHE_DISPATCH(x.device(), gather(y, x, dim, index));
  autograd::record("gather", y, {x},
                   [dim, index = Saved(index), in = x.shape()](const Tensor& dy, const Needs&) {
                     return Tensors{scatter_places(dy, dim, index.get(), in)};
                   });
  return y;
}

/// For gather and scatter_add: index must fit into x in all dimensions but dim.
void check_places(const char* op, const Tensor& x, int dim, const Tensor& index) {
  bool fits = index.ndim() == x.ndim();
  for (int d = 0; fits && d < x.ndim(); ++d) {
    fits = d == dim || index.shape()[d] <= x.shape()[d];
  }
  LATHE_CHECK(ShapeError, fits, op,
              ": index must have x's number of dimensions and be no longer in any but ", dim,
              " (x: ", x, ", index: ", index, ")");
}

/// True if the sums of source's elements can be added to x by the kernel that computes them: in x's
/// dtype, and with no history.
bool adds_straight(const Tensor& x, const Tensor& source) {
  const autograd::TensorRef inputs[] = {x, source};
  return x.device().is_cpu() && x.is_contiguous() && !is_half(x.dtype()) &&
         !autograd::wants_record(inputs, 2) && !profile::watched();
}

void check_vector(const char* op, const Tensor& index) {
  LATHE_CHECK(ShapeError, index.ndim() == 1, op, ": index must be [K] (index: ", index, ")");
}

}  // namespace

void check_index(const char* op, const Tensor& index, int64_t size) {
  LATHE_DISPATCH(index.device(), check_index(op, index, size));
}

Tensor count_from_front(const char* op, const Tensor& index, int64_t size) {
  const Tensor wide = cast(index, kI64);
  if (wide.device().is_cpu() && !profile::watched() && cpu::all_inside(wide, size)) return wide;
  const Tensor places = where(lt(wide, 0), add(wide, size), wide);
  check_index(op, places, size);
  return places;
}

Tensor index_select(const Tensor& x_in, int64_t dim_in, const Tensor& index_in) {
  const profile::OpRange range("index_select", {x_in, index_in});
  profile::note_arguments(dim_in);
  const Tensor x = at_least_1d(x_in), index = at_least_1d(index_in);
  const int dim = wrap_dim("index_select", dim_in, x.ndim());
  check_vector("index_select", index);
  LATHE_CHECK(ShapeError, x_in.ndim() > 0 || index.numel() == 1,
              "index_select: a 0-d tensor has one element, not ", index.numel(), " (x: ", x_in,
              ", index: ", index_in, ")");
  const Tensor y = select_slices(x, dim, contiguous(checked("index_select", index, x, dim)));
  return like_before(y, x_in);
}

Tensor index_add(const Tensor& x_in, int64_t dim_in, const Tensor& index_in,
                 const Tensor& source_in, Scalar alpha) {
  const profile::OpRange range("index_add", {x_in, index_in, source_in});
  const Tensor x = at_least_1d(x_in), index = at_least_1d(index_in);
  const Tensor source = at_least_1d(source_in);
  const int dim = wrap_dim("index_add", dim_in, x.ndim());
  check_vector("index_add", index);
  check_added("index_add", x, source);
  LATHE_CHECK(
      ShapeError,
      source.ndim() == x.ndim() && source.shape() == with_size(x.shape(), dim, index.numel()),
      "index_add: source must have x's shape with ", index.numel(), " in dimension ", dim,
      " (x: ", x, ", source: ", source, ")");
  const Tensor places = contiguous(checked("index_add", index, x, dim));
  check_number("index_add", alpha, x);
  const bool plain = alpha.to<double>() == 1;
  if (plain && adds_straight(x, source)) {
    const Tensor y = empty_strided(x.shape(), contiguous_strides(x.shape()), x.dtype(), x.device());
    cpu::index_sum(around(y, dim), around(contiguous(source), dim), places, around(x, dim));
    return like_before(y, x_in);
  }
  const Tensor sums = sum_slices(source, dim, places, x.shape()[dim]);
  return like_before(add(x, plain ? sums : mul(sums, alpha)), x_in);
}

Tensor gather(const Tensor& x_in, int64_t dim_in, const Tensor& index_in) {
  const profile::OpRange range("gather", {x_in, index_in});
  profile::note_arguments(dim_in);
  const Tensor x = at_least_1d(x_in), index = at_least_1d(index_in);
  const int dim = wrap_dim("gather", dim_in, x.ndim());
  check_places("gather", x, dim, index);
  return like_before(gather_places(x, dim, checked("gather", index, x, dim)), index_in);
}

Tensor scatter_add(const Tensor& x_in, int64_t dim_in, const Tensor& index_in,
                   const Tensor& source_in) {
  const profile::OpRange range("scatter_add", {x_in, index_in, source_in});
  const Tensor x = at_least_1d(x_in), index = at_least_1d(index_in);
  Tensor source = at_least_1d(source_in);
  const int dim = wrap_dim("scatter_add", dim_in, x.ndim());
  check_places("scatter_add", x, dim, index);
  check_added("scatter_add", x, source);
  bool covers = source.ndim() == index.ndim();
  for (int d = 0; covers && d < index.ndim(); ++d) {
    covers = source.shape()[d] >= index.shape()[d];
  }
  LATHE_CHECK(ShapeError, covers, "scatter_add: source is smaller than index (index: ", index,
              ", source: ", source, ")");
  for (int d = 0; d < index.ndim(); ++d) {
    if (source.shape()[d] > index.shape()[d]) source = narrow(source, d, 0, index.shape()[d]);
  }
  const Tensor places = checked("scatter_add", index, x, dim);
  if (adds_straight(x, source) && cpu::has_whole_lines(x, dim, places)) {
    const Tensor y = empty_strided(x.shape(), contiguous_strides(x.shape()), x.dtype(), x.device());
    cpu::scatter_sum(y, source, dim, places, x);
    return like_before(y, x_in);
  }
  return like_before(add(x, scatter_places(source, dim, places, x.shape())), x_in);
}

}  // namespace lathe
