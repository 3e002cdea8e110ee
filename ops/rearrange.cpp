// Reordered and repeated elements: slices, joins and broadcasts. Contracts: rearrange.h.
#include "lathe/ops/rearrange.h"

#include <algorithm>

#include "lathe/autograd/record.h"
#include "lathe/core/checked_size.h"
#include "lathe/core/copy.h"
#include "lathe/core/hooks/range.h"
#include "lathe/core/hooks/watch.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/index.h"
#include "lathe/ops/join.h"
#include "lathe/ops/lines.h"
#include "lathe/ops/views.h"
#include "lathe/ops/where.h"

namespace lathe {

namespace {

/// y, or a copy if it is still x or a view of x.
Tensor owned(const Tensor& y, const Tensor& x) { return y.shares_storage(x) ? clone(y) : y; }

/// Each slice along `dim` of x `times` times in a row.
Tensor interleaved(const char* op, const Tensor& x, int dim, int64_t times) {
  LATHE_CHECK(ValueError, times >= 0, op, ": repeats must not be negative, got ", times, " (x: ", x,
              ")");
  const Lines lines = lines_of(x.shape(), dim);
  Shape shape = x.ndim() == 0 ? Shape{1} : x.shape();
  shape[dim] =
      (CheckedSize(shape[dim]) * times)
          .value_or_throw<ShapeError>(op, ": ", times, " repeats are too many (x: ", x, ")");
  numel_of(shape);  // before it is cut into factors
  const Tensor slices = reshape(x, {lines.outer * lines.n, 1, lines.inner});
  const Tensor repeated = expand(slices, {lines.outer * lines.n, times, lines.inner});
  return owned(contiguous(reshape(repeated, shape)), x);
}

/// The dimensions, from the front.
/// throws: IndexError (out of range, repeated).
Dims wrapped(const char* op, const Dims& dims, int ndim) {
  Dims all;
  if (!dims.empty()) dim_mask(op, dims, ndim);  // which takes none as all
  for (const int64_t d : dims) all.push_back(wrap_dim(op, d, ndim));
  return all;
}

/// flip() as a graph holds it.
Tensor flipped_by_index(const Tensor& x, const Dims& dims) {
  Tensor y = x;
  for (const int64_t dim : dims) {
    const int64_t size = x.dim(dim);
    if (size > 1)
      y = index_select(y, dim, arange(size - 1, -1, -1, {.dtype = kI64, .device = x.device()}));
  }
  return y;
}

/// x as copy_values() reads it backwards along `dims`: from the far ends, with negative strides. x
/// has elements.
Tensor reversed_alias(const Tensor& x, const Dims& dims) {
  Strides strides = x.strides();
  int64_t offset = x.offset();
  for (const int64_t dim : dims) {
    const int d = static_cast<int>(dim);
    offset += (x.shape()[d] - 1) * strides[d];
    strides[d] = -strides[d];
  }
  return alias(x, x.shape(), strides, offset);
}

Tensor rolled(const Tensor& x, int64_t shift, int dim) {
  const int64_t size = x.ndim() == 0 ? 1 : x.shape()[dim];
  if (size <= 1) return x;                            // its caller copies
  const int64_t step = (shift % size + size) % size;  // in [0, size)
  if (step == 0) return x;
  return cat({narrow(x, dim, size - step, step), narrow(x, dim, 0, size - step)}, dim);
}

}  // namespace

Tensor flip(const Tensor& x, const Dims& dims_in) {
  const profile::OpRange range("flip", {x});
  const Dims dims = wrapped("flip", dims_in, x.ndim());
  if (x.ndim() == 0 || x.numel() == 0) return clone(x);
  if (profile::watched()) return owned(flipped_by_index(x, dims), x);  // ops that a graph holds
  Tensor y = empty_like(x);
  copy_values(y, reversed_alias(x, dims));
  autograd::record("flip", y, {x}, [dims](const Tensor& dy, const autograd::Needs&) {
    return Tensors{flip(dy, dims)};
  });
  return y;
}

Tensor roll(const Tensor& x, int64_t shift) {
  const profile::OpRange range("roll", {x});
  return owned(reshape(rolled(reshape(x, {x.numel()}), shift, 0), x.shape()), x);
}
Tensor roll(const Tensor& x, int64_t shift, int64_t dim) {
  const profile::OpRange range("roll", {x});
  return owned(rolled(x, shift, wrap_dim("roll", dim, x.ndim())), x);
}
Tensor roll(const Tensor& x, const Dims& shifts, const Dims& dims) {
  const profile::OpRange range("roll", {x});
  LATHE_CHECK(ShapeError, shifts.size() == dims.size(), "roll: there are ", shifts.size(),
              " shifts for ", dims.size(), " dimensions (x: ", x, ")");
  Tensor y = x;  // a dimension may come twice; then its shifts add up
  for (int i = 0; i < dims.size(); ++i) {
    y = rolled(y, shifts[i], wrap_dim("roll", dims[i], x.ndim()));
  }
  return owned(y, x);
}

Tensor repeat(const Tensor& x, const Dims& repeats) {
  const profile::OpRange range("repeat", {x});
  LATHE_CHECK(ShapeError, repeats.size() >= x.ndim(), "repeat: ", repeats,
              " has fewer numbers than x has dimensions (x: ", x, ")");
  Shape shape = x.shape();
  while (shape.size() < repeats.size()) shape.insert(0, 1);
  Tensor y = reshape(x, shape);
  for (int d = shape.size() - 1; d >= 0; --d) {  // from the back, while x is still small
    LATHE_CHECK(ShapeError, repeats[d] >= 0, "repeat: negative number ", repeats[d], " in ",
                repeats);
    if (repeats[d] == 1) continue;
    // A tile is dimension d with all after it, so tiles follow each other as slices of [outer,1].
    const Lines lines = lines_of(shape, d);
    shape[d] = (CheckedSize(shape[d]) * repeats[d])
                   .value_or_throw<ShapeError>("repeat: ", repeats, " is too large (x: ", x, ")");
    numel_of(shape);
    y = reshape(y, {lines.outer, 1, lines.n * lines.inner});
    y = reshape(expand(y, {lines.outer, repeats[d], lines.n * lines.inner}), shape);
  }
  return owned(contiguous(y), x);
}

Tensor tile(const Tensor& x, const Dims& repeats) {
  const profile::OpRange range("tile", {x});
  Dims all = repeats;
  while (all.size() < x.ndim()) all.insert(0, 1);
  return repeat(x, all);
}

Tensor repeat_interleave(const Tensor& x, int64_t repeats) {
  const profile::OpRange range("repeat_interleave", {x});
  return interleaved("repeat_interleave", reshape(x, {x.numel()}), 0, repeats);
}
Tensor repeat_interleave(const Tensor& x, int64_t repeats, int64_t dim) {
  const profile::OpRange range("repeat_interleave", {x});
  return interleaved("repeat_interleave", x, wrap_dim("repeat_interleave", dim, x.ndim()), repeats);
}
Tensor repeat_interleave(const Tensor& x, const Tensor& repeats, int64_t dim_in) {
  const profile::OpRange range("repeat_interleave", {x, repeats});
  const int dim = wrap_dim("repeat_interleave", dim_in, x.ndim());
  const int64_t size = x.ndim() == 0 ? 1 : x.shape()[dim];
  LATHE_CHECK(DTypeError, repeats.dtype() == kI64 || repeats.dtype() == kI32,
              "repeat_interleave: repeats must be i64 or i32 (repeats: ", repeats, ")");
  LATHE_CHECK(ShapeError, repeats.ndim() == 1 && repeats.numel() == size,
              "repeat_interleave: repeats must be [", size, "], a number for each element of dim ",
              dim, " (x: ", x, ", repeats: ", repeats, ")");
  std::vector<int64_t> index;
  int64_t at = 0;
  for (const int64_t times : repeats.to_vector<int64_t>()) {
    LATHE_CHECK(ValueError, times >= 0, "repeat_interleave: repeats[", at,
                "] must not be negative, got ", times);
    index.insert(index.end(), static_cast<size_t>(times), at++);
  }
  const Tensor whole = x.ndim() == 0 ? reshape(x, {1}) : x;
  return index_select(whole, dim, tensor(index, {.device = x.device()}));
}

Tensor expand_as(const Tensor& x, const Tensor& other) {
  const profile::OpRange range("expand_as", {x, other}, profile::Kind::kView);
  return expand(x, other.shape());
}
Tensor view_as(const Tensor& x, const Tensor& other) {
  const profile::OpRange range("view_as", {x, other}, profile::Kind::kView);
  return view(x, other.shape());
}
Tensor reshape_as(const Tensor& x, const Tensor& other) {
  const profile::OpRange range("reshape_as", {x, other}, profile::Kind::kView);
  return reshape(x, other.shape());
}

Tensors unbind(const Tensor& x, int64_t dim_in) {
  const profile::OpRange range("unbind", {x}, profile::Kind::kView);
  LATHE_CHECK(IndexError, x.ndim() > 0, "unbind: a 0-d tensor has no dimension (x: ", x, ")");
  const int dim = wrap_dim("unbind", dim_in, x.ndim());
  Tensors slices;
  for (int64_t i = 0; i < x.shape()[dim]; ++i) slices.push_back(select(x, dim, i));
  return slices;
}

static void check_pixel_factor(const char* op, const Tensor& x, int64_t factor) {
  LATHE_CHECK(ShapeError, x.ndim() == 3 || x.ndim() == 4, op,
              ": x must be [N,C,H,W] or [C,H,W] (x: ", x, ")");
  LATHE_CHECK(ValueError, factor >= 1 && factor < (int64_t{1} << 31), op,
              ": factor must be in [1, 2^31), got ", factor);
}

/// a * b, a size of op's result.
static int64_t size_of_product(const char* op, const Tensor& x, int64_t a, int64_t b) {
  return (CheckedSize(a) * b)
      .value_or_throw<ShapeError>(op, ": ", a, " * ", b, " is too large (x: ", x, ")");
}

Tensor pixel_shuffle(const Tensor& x_in, int64_t factor) {
  const profile::OpRange range("pixel_shuffle", {x_in});
  check_pixel_factor("pixel_shuffle", x_in, factor);
  if (x_in.ndim() == 3) return squeeze(pixel_shuffle(unsqueeze(x_in, 0), factor), 0);
  const int64_t n = x_in.dim(0), c = x_in.dim(1), h = x_in.dim(2), w = x_in.dim(3);
  const int64_t r = factor;
  LATHE_CHECK(ShapeError, c % (r * r) == 0, "pixel_shuffle: ", c,
              " channels are no multiple of factor^2 = ", r * r, " (x: ", x_in, ")");
  const Tensor parts = reshape(x_in, {n, c / (r * r), r, r, h, w});
  const int64_t rows = size_of_product("pixel_shuffle", x_in, h, r);
  const int64_t columns = size_of_product("pixel_shuffle", x_in, w, r);
  return owned(reshape(permute(parts, {0, 1, 4, 2, 5, 3}), {n, c / (r * r), rows, columns}), x_in);
}

Tensor pixel_unshuffle(const Tensor& x_in, int64_t factor) {
  const profile::OpRange range("pixel_unshuffle", {x_in});
  check_pixel_factor("pixel_unshuffle", x_in, factor);
  if (x_in.ndim() == 3) return squeeze(pixel_unshuffle(unsqueeze(x_in, 0), factor), 0);
  const int64_t n = x_in.dim(0), c = x_in.dim(1), h = x_in.dim(2), w = x_in.dim(3);
  const int64_t r = factor;
  LATHE_CHECK(ShapeError, h % r == 0 && w % r == 0, "pixel_unshuffle: ", h, " rows and ", w,
              " columns are no multiples of factor ", r, " (x: ", x_in, ")");
  const Tensor parts = reshape(x_in, {n, c, h / r, r, w / r, r});
  const int64_t channels = size_of_product("pixel_unshuffle", x_in, c, r * r);
  return owned(reshape(permute(parts, {0, 1, 3, 5, 2, 4}), {n, channels, h / r, w / r}), x_in);
}

Tensor movedim(const Tensor& x, int64_t from, int64_t to) {
  return movedim(x, Dims{from}, Dims{to});
}
Tensor movedim(const Tensor& x, const Dims& from_in, const Dims& to_in) {
  const profile::OpRange range("movedim", {x}, profile::Kind::kView);
  LATHE_CHECK(ShapeError, from_in.size() == to_in.size(), "movedim: ", from_in.size(),
              " dimensions do not move to ", to_in.size(), " places (x: ", x, ")");
  const Dims from = wrapped("movedim", from_in, x.ndim()), to = wrapped("movedim", to_in, x.ndim());
  if (x.ndim() == 0) return x;
  Dims order = Dims::filled(x.ndim(), -1);
  for (int i = 0; i < from.size(); ++i) order[static_cast<int>(to[i])] = from[i];
  int next = 0;
  for (int64_t& place : order) {
    if (place >= 0) continue;
    while (std::find(from.begin(), from.end(), next) != from.end()) ++next;
    place = next++;
  }
  return permute(x, order);
}

Tensor swapaxes(const Tensor& x, int64_t a, int64_t b) {
  const profile::OpRange range("swapaxes", {x}, profile::Kind::kView);
  return transpose(x, a, b);
}

Tensors meshgrid(const Tensors& axes, MeshIndexing indexing) {
  const profile::OpRange range("meshgrid", axes);
  LATHE_CHECK(ValueError, !axes.empty(), "meshgrid: there are no axes");
  Shape shape;
  for (const Tensor& axis : axes) {
    LATHE_CHECK(ShapeError, axis.ndim() <= 1, "meshgrid: an axis must be [n] or 0-d (axis: ", axis,
                ")");
    LATHE_CHECK(DTypeError, axis.dtype() == axes[0].dtype(),
                "meshgrid: axes must have one dtype (axis 0: ", axes[0], ", axis: ", axis, ")");
    LATHE_CHECK(DeviceError, axis.device() == axes[0].device(),
                "meshgrid: axes must be on one device (axis 0: ", axes[0], ", axis: ", axis, ")");
    shape.push_back(axis.numel());
  }
  const bool swap = indexing == MeshIndexing::kXY && axes.size() > 1;
  Tensors grids;
  for (int i = 0; i < shape.size(); ++i) {
    Shape line = Dims::filled(shape.size(), 1);
    line[i] = shape[i];
    const Tensor grid = expand(reshape(axes[static_cast<size_t>(i)], line), shape);
    grids.push_back(swap ? transpose(grid, 0, 1) : grid);
  }
  return grids;
}

Tensor take_along_dim(const Tensor& x, const Tensor& index, int64_t dim_in) {
  const profile::OpRange range("take_along_dim", {x, index});
  const int dim = wrap_dim("take_along_dim", dim_in, x.ndim());
  LATHE_CHECK(ShapeError, x.ndim() == index.ndim(),
              "take_along_dim: x and index must have as many dimensions (x: ", x,
              ", index: ", index, ")");
  if (x.ndim() == 0) return gather(x, dim, index);
  const Tensor at = where(lt(index, 0), add(index, x.dim(dim)), index);
  Shape xs = x.shape(), is = index.shape();
  xs[dim] = is[dim] = 1;
  xs = is = broadcast_shapes("take_along_dim", xs, is);
  xs[dim] = x.shape()[dim];
  is[dim] = index.shape()[dim];
  return gather(expand(x, xs), dim, expand(at, is));
}

}  // namespace lathe
