// scatter, take, put, index_put, index_fill and index_copy. One kernel finds which element stays at
// each position; the values are then moved by index_select and where, which bring the gradients.
// Without a gradient the CPU writes them one after another. Contracts: scatter.h.
#include "lathe/ops/scatter.h"

#include "lathe/autograd/record.h"
#include "lathe/core/dispatch.h"
#include "lathe/core/hooks/range.h"
#include "lathe/core/hooks/watch.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/index.h"
#include "lathe/ops/index_kernels.h"
#include "lathe/ops/nonzero.h"
#include "lathe/ops/promote.h"
#include "lathe/ops/rearrange.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"
#include "lathe/ops/where.h"

namespace lathe {

namespace {

void check_index_dtype(const char* op, const Tensor& x, const Tensor& index) {
  LATHE_CHECK(DTypeError, index.dtype() == kI64 || index.dtype() == kI32, op,
              ": index must be i64 or i32 (index: ", index, ")");
  LATHE_CHECK(DeviceError, index.device() == x.device(), op, ": index is on another device (x: ", x,
              ", index: ", index, ")");
}

void check_source(const char* op, const Tensor& x, const Tensor& source) {
  LATHE_CHECK(DTypeError, source.dtype() == x.dtype(), op, ": source must have x's dtype (x: ", x,
              ", source: ", source, ")");
  LATHE_CHECK(DeviceError, source.device() == x.device(), op,
              ": source is on another device (x: ", x, ", source: ", source, ")");
}

/// Who stays at each of `size` positions, -1 for nobody.
Tensor last_writers(const Tensor& places, int64_t size) {
  Tensor last = empty({size}, {.dtype = kI64, .device = places.device()});
  LATHE_DISPATCH(places.device(), last_writer(last, contiguous(places)));
  return last;
}

/// True if values can be written into a copy of x straight away: in order, and with no history.
bool writes_straight(const Tensor& x, const Tensor& source) {
  const autograd::TensorRef inputs[] = {x, source};
  return x.device().is_cpu() && !autograd::wants_record(inputs, 2) && !profile::watched();
}

/// x [P,R] with row k of source [K,R] at row places[k].
Tensor put_rows(const Tensor& x, const Tensor& places, const Tensor& source) {
  if (x.numel() == 0 || source.numel() == 0) return clone(x);
  if (writes_straight(x, source)) {
    const Tensor y = clone(x);
    cpu::index_write(y, contiguous(places), source);
    return y;
  }
  const Tensor last = last_writers(places, x.dim(0));
  const Tensor written = index_select(source, 0, clamp(last, {.low = 0}));
  return where(unsqueeze(ge(last, 0), 1), written, x);
}

/// As many dimensions as index, the positions in a dense x at which index points along dim.
Tensor places_along(const Tensor& x, int dim, const Tensor& index) {
  const Strides strides = contiguous_strides(x.shape());
  Tensor places = mul(index, strides[dim]);
  for (int d = 0; d < x.ndim(); ++d) {
    if (d == dim) continue;
    Shape line = Dims::filled(x.ndim(), 1);
    line[d] = index.shape()[d];
    const Tensor steps = arange(index.shape()[d], {.dtype = kI64, .device = x.device()});
    places = add(places, reshape(mul(steps, strides[d]), line));
  }
  return reshape(places, {places.numel()});
}

/// What scatter begins with: the operands with a dimension at least; index is i64.
struct Scatter {
  Tensor x, index;
  int dim;

  Tensor places() const { return places_along(x, dim, index); }
};
Scatter prepare_scatter(const Tensor& x_in, int64_t dim_in, const Tensor& index_in) {
  const auto at_least_1d = [](const Tensor& t) { return t.ndim() == 0 ? reshape(t, {1}) : t; };
  Scatter s{at_least_1d(x_in), at_least_1d(index_in), 0};
  const int dim = s.dim = wrap_dim("scatter", dim_in, s.x.ndim());
  check_index_dtype("scatter", s.x, s.index);
  bool fits = s.index.ndim() == s.x.ndim();
  for (int d = 0; fits && d < s.x.ndim(); ++d) {
    fits = d == dim || s.index.shape()[d] <= s.x.shape()[d];
  }
  LATHE_CHECK(ShapeError, fits,
              "scatter: index must have x's number of dimensions and be no longer in any but ", dim,
              " (x: ", x_in, ", index: ", index_in, ")");
  s.index = cast(s.index, kI64);
  check_index("scatter", s.index, s.x.shape()[dim]);
  return s;
}

Tensor checked_places(const char* op, const Tensor& x, const Tensor& index, int64_t size) {
  check_index_dtype(op, x, index);
  return count_from_front(op, index, size);
}

/// The positions of indices, which broadcast to one shape, in x's leading dimensions.
Tensor row_places(const Tensor& x, const Tensors& indices) {
  Tensor places;
  for (size_t i = 0; i < indices.size(); ++i) {
    const int64_t size = x.shape()[static_cast<int>(i)];
    const Tensor at = checked_places("index_put", x, indices[i], size);
    places = places.defined() ? add(mul(places, size), at) : at;
  }
  return places;
}

/// Bool indices become the coordinates at which they are true.
Tensors integer_indices(const Tensor& x, const Tensors& indices) {
  Tensors all;
  for (const Tensor& index : indices) {
    if (index.dtype() != kBool) {
      all.push_back(index);
      continue;
    }
    const int first = static_cast<int>(all.size());
    bool fits = first + index.ndim() <= x.ndim() && index.ndim() > 0;
    for (int d = 0; fits && d < index.ndim(); ++d) {
      fits = index.shape()[d] == x.shape()[first + d];
    }
    LATHE_CHECK(ShapeError, fits,
                "index_put: a bool index must have the sizes of x from dimension ", first,
                " on (x: ", x, ", index: ", index, ")");
    const Tensor found = nonzero(index);
    for (int d = 0; d < index.ndim(); ++d) all.push_back(select(found, 1, d));
  }
  return all;
}

}  // namespace

Tensor scatter(const Tensor& x_in, int64_t dim, const Tensor& index_in, const Tensor& source_in) {
  const profile::OpRange range("scatter", {x_in, index_in, source_in});
  check_source("scatter", x_in, source_in);
  const Scatter s = prepare_scatter(x_in, dim, index_in);
  Tensor source = source_in.ndim() == 0 ? reshape(source_in, {1}) : source_in;
  bool covers = source.ndim() == s.index.ndim();
  for (int d = 0; covers && d < source.ndim(); ++d) {
    covers = source.shape()[d] >= s.index.shape()[d];
    if (covers) source = narrow(source, d, 0, s.index.shape()[d]);
  }
  LATHE_CHECK(ShapeError, covers, "scatter: source is smaller than index (index: ", index_in,
              ", source: ", source_in, ")");
  if (writes_straight(s.x, source)) {
    const Tensor dense = contiguous(s.x);
    const bool is_copy = !dense.is_same(s.x);
    if (!is_copy && cpu::has_whole_lines(dense, s.dim, s.index)) {
      const Tensor y = empty_like(dense);
      cpu::scatter_write(y, source, s.dim, s.index, dense);
      return reshape(y, x_in.shape());
    }
    const Tensor y = is_copy ? dense : clone(dense);
    cpu::scatter_write(y, source, s.dim, s.index);
    return reshape(y, x_in.shape());
  }
  const Tensor rows = reshape(s.x, {s.x.numel(), 1});
  return reshape(put_rows(rows, s.places(), reshape(source, {source.numel(), 1})), x_in.shape());
}

Tensor scatter(const Tensor& x, int64_t dim, const Tensor& index, Scalar value) {
  const profile::OpRange range("scatter", {x, index});
  check_number("scatter", value, x);
  const Scatter s = prepare_scatter(x, dim, index);
  if (s.x.numel() == 0) return clone(x);
  const Tensor written = ge(last_writers(s.places(), s.x.numel()), 0);
  return masked_fill(x, reshape(written, x.shape()), value);
}

Tensor take(const Tensor& x, const Tensor& index) {
  const profile::OpRange range("take", {x, index});
  const Tensor places = reshape(checked_places("take", x, index, x.numel()), {index.numel()});
  return reshape(index_select(reshape(x, {x.numel()}), 0, places), index.shape());
}

Tensor put(const Tensor& x, const Tensor& index, const Tensor& source, const PutOptions& opt) {
  const profile::OpRange range("put", {x, index, source});
  check_source("put", x, source);
  LATHE_CHECK(ShapeError, index.numel() == source.numel(),
              "put: index and source must have as many elements (index: ", index,
              ", source: ", source, ")");
  const Tensor places = reshape(checked_places("put", x, index, x.numel()), {index.numel()});
  const Tensor rows = reshape(x, {x.numel(), 1}), values = reshape(source, {source.numel(), 1});
  return reshape(
      opt.accumulate ? index_add(rows, 0, places, values) : put_rows(rows, places, values),
      x.shape());
}

Tensor index_put(const Tensor& x, const Tensors& indices_in, const Tensor& values,
                 const PutOptions& opt) {
  const profile::OpRange range("index_put", {x, values});
  LATHE_CHECK(ValueError, !indices_in.empty(), "index_put: there are no indices (x: ", x, ")");
  check_source("index_put", x, values);
  const Tensors indices = integer_indices(x, indices_in);
  LATHE_CHECK(ShapeError, indices.size() <= static_cast<size_t>(x.ndim()),
              "index_put: ", indices.size(), " indices are too many (x: ", x, ")");
  const Tensor places = row_places(x, indices);
  Shape shape = places.shape();
  int64_t rows = 1;
  for (int d = 0; d < x.ndim(); ++d) {
    if (static_cast<size_t>(d) < indices.size())
      rows *= x.shape()[d];
    else
      shape.push_back(x.shape()[d]);
  }
  LATHE_CHECK(ShapeError, broadcast_shapes("index_put", values.shape(), shape) == shape,
              "index_put: values do not broadcast to ", shape, " (x: ", x, ", values: ", values,
              ")");
  if (x.numel() == 0) return values.requires_grad() ? add(x, mul(sum(values), 0)) : clone(x);
  const int64_t width = x.numel() / rows;
  const Tensor table = reshape(x, {rows, width}), flat = reshape(places, {places.numel()});
  const Tensor source = reshape(expand(values, shape), {places.numel(), width});
  return reshape(opt.accumulate ? index_add(table, 0, flat, source) : put_rows(table, flat, source),
                 x.shape());
}

/// x after x[:,…,index] = values, where the index stands at `dim`; values has the indexed dimension
/// in front.
static Tensor with_slices(const Tensor& x, int dim, const Tensor& index, const Tensor& values) {
  return movedim(index_put(movedim(x, dim, 0), {index}, values), 0, dim);
}

Tensor index_fill(const Tensor& x_in, int64_t dim_in, const Tensor& index_in, Scalar value) {
  const profile::OpRange range("index_fill", {x_in, index_in});
  check_number("index_fill", value, x_in);
  const int dim = wrap_dim("index_fill", dim_in, x_in.ndim());
  const Tensor x = x_in.ndim() == 0 ? reshape(x_in, {1}) : x_in;
  LATHE_CHECK(ShapeError, index_in.ndim() <= 1,
              "index_fill: index must be [K] or 0-d (index: ", index_in, ")");
  const Tensor index =
      checked_places("index_fill", x_in, reshape(index_in, {index_in.numel()}), x.shape()[dim]);
  const Tensor number = full({}, value, {.dtype = x.dtype(), .device = x.device()});
  return reshape(with_slices(x, dim, index, number), x_in.shape());
}

Tensor index_copy(const Tensor& x_in, int64_t dim_in, const Tensor& index_in,
                  const Tensor& source_in) {
  const profile::OpRange range("index_copy", {x_in, index_in, source_in});
  check_source("index_copy", x_in, source_in);
  check_index_dtype("index_copy", x_in, index_in);
  const auto at_least_1d = [](const Tensor& t) { return t.ndim() == 0 ? reshape(t, {1}) : t; };
  const Tensor x = at_least_1d(x_in), index = at_least_1d(index_in);
  const Tensor source = at_least_1d(source_in);
  const int dim = wrap_dim("index_copy", dim_in, x.ndim());
  Shape shape = x.shape();
  shape[dim] = index.numel();
  LATHE_CHECK(ShapeError, index.ndim() == 1 && source.shape() == shape,
              "index_copy: index must be [K] and source x's shape with K in dimension ", dim,
              " (x: ", x_in, ", index: ", index_in, ", source: ", source_in, ")");
  check_index("index_copy", cast(index, kI64), x.shape()[dim]);
  return reshape(with_slices(x, dim, index, movedim(source, dim, 0)), x_in.shape());
}

}  // namespace lathe
