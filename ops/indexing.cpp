// x.index({…}): the entries that make a view first, then the tensors of indices.
#include "lathe/ops/indexing.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "lathe/autograd/record.h"
#include "lathe/core/hooks/range.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/index.h"
#include "lathe/ops/inplace.h"
#include "lathe/ops/lines.h"
#include "lathe/ops/nonzero.h"
#include "lathe/ops/promote.h"
#include "lathe/ops/scatter.h"
#include "lathe/ops/views.h"

namespace lathe {

TensorIndex::TensorIndex(const char* text) : kind_(Ellipsis) {
  LATHE_CHECK(ValueError, text != nullptr && std::string_view(text) == "...", "TensorIndex: \"",
              text == nullptr ? "null" : text, "\" is no index; the only text is \"...\"");
}

namespace {

using Indices = std::span<const TensorIndex>;

/// A view of x and, for some of its dimensions, tensors of indices (i64, in [0, size), not yet
/// broadcast).
struct Chosen {
  Tensor view;
  std::vector<std::pair<int, Tensor>> at;  // dimension of `view`, ascending
};

/// How many of x's dimensions an entry stands for.
int dims_of(const TensorIndex& entry) {
  if (const auto* t = std::get_if<Tensor>(&entry.kind())) {
    return t->dtype() == kBool ? t->ndim() : 1;
  }
  return std::holds_alternative<NoneType>(entry.kind()) ||
                 std::holds_alternative<EllipsisType>(entry.kind())
             ? 0
             : 1;
}

/// Dimensions that Ellipsis stands for.
/// throws: IndexError for too many entries, or two Ellipsis.
int left_over(const char* op, const Tensor& x, Indices indices) {
  int named = 0, open = 0;
  for (const TensorIndex& entry : indices) {
    named += dims_of(entry);
    open += std::holds_alternative<EllipsisType>(entry.kind()) ? 1 : 0;
  }
  LATHE_CHECK(IndexError, named <= x.ndim(), op, ": ", named, " indices for ", x.ndim(),
              " dimensions (x: ", x, ")");
  LATHE_CHECK(IndexError, open <= 1, op, ": ", open, " times Ellipsis; at most 1 (x: ", x, ")");
  return x.ndim() - named;
}

Tensor sliced(const char* op, const Tensor& x, int dim, const Slice& s) {
  LATHE_CHECK(ValueError, s.step() > 0, op, ": the step of a Slice must be above 0, got ", s.step(),
              " (x: ", x, ")");
  return slice(x, dim, s.start().value_or(0), s.stop().value_or(x.dim(dim)), s.step());
}

/// throws: DTypeError, IndexError.
Tensor positions_in(const char* op, const Tensor& x, int dim, const Tensor& index) {
  LATHE_CHECK(DTypeError, is_integer(index.dtype()), op, ": expected integers or bool, got ",
              index.dtype(), " (index: ", index, ")");
  return count_from_front(op, to_device(index, x.device()), x.dim(dim));
}

/// The dimensions from `dim` on that a mask stands for, as one list of positions per dimension.
void add_mask(const char* op, Chosen& chosen, int dim, const Tensor& mask) {
  for (int d = 0; d < mask.ndim(); ++d) {
    LATHE_CHECK(IndexError, mask.dim(d) == chosen.view.dim(dim + d), op, ": a mask of shape ",
                mask.shape(), " does not fit dimensions ", dim, " and following (x: ", chosen.view,
                ")");
  }
  const Tensor places = nonzero(to_device(mask, chosen.view.device()));
  for (int d = 0; d < mask.ndim(); ++d) chosen.at.emplace_back(dim + d, select(places, 1, d));
}

Chosen choose(const char* op, const Tensor& x, Indices indices) {
  const int rest = left_over(op, x, indices);
  Chosen chosen{x, {}};
  int dim = 0;
  for (const TensorIndex& entry : indices) {
    Tensor& view = chosen.view;
    const TensorIndex::Kind& kind = entry.kind();
    if (const auto* number = std::get_if<int64_t>(&kind)) {
      view = select(view, dim, *number);
    } else if (const auto* s = std::get_if<Slice>(&kind)) {
      view = sliced(op, view, dim++, *s);
    } else if (std::holds_alternative<NoneType>(kind)) {
      view = unsqueeze(view, dim++);
    } else if (std::holds_alternative<EllipsisType>(kind)) {
      dim += rest;
    } else if (const auto& t = std::get<Tensor>(kind); t.ndim() == 0 && is_integer(t.dtype())) {
      view = select(view, dim, t.item<int64_t>());
    } else if (t.dtype() != kBool) {
      chosen.at.emplace_back(dim, positions_in(op, view, dim, t));
      ++dim;
    } else if (t.ndim() > 0) {
      add_mask(op, chosen, dim, t);
      dim += t.ndim();
    } else {  // true keeps everything, in a new dimension of size 1; false nothing, of size 0
      view = unsqueeze(view, dim);
      chosen.at.emplace_back(dim++, nonzero(unsqueeze(to_device(t, view.device()), 0)).flatten());
    }
  }
  return chosen;
}

/// Where the elements lie: their positions in the chosen dimensions of the view, taken as one
/// dimension in front of the others.
struct Places {
  Dims order;        // the view's dimensions, the chosen ones first
  Tensor positions;  // i64, of the shape that the tensors of indices broadcast to
  int64_t size = 1;  // of the chosen dimensions together
  int front = 0;     // where the positions' dimensions stand in the result
};

Places places_of(const char* op, const Chosen& chosen) {
  Places p;
  bool adjacent = true;
  for (size_t k = 0; k < chosen.at.size(); ++k) {
    const auto& [dim, index] = chosen.at[k];
    const int64_t size = chosen.view.dim(dim);
    if (k > 0) broadcast_shapes(op, p.positions.shape(), index.shape());
    p.positions = k == 0 ? index : add(mul(p.positions, size), index);
    p.size *= size;
    p.order.push_back(dim);
    adjacent = adjacent && (k == 0 || dim == chosen.at[k - 1].first + 1);
  }
  if (adjacent) p.front = chosen.at[0].first;
  for (int d = 0; d < chosen.view.ndim(); ++d) {
    if (std::find(p.order.begin(), p.order.end(), d) == p.order.end()) p.order.push_back(d);
  }
  return p;
}

/// `ordered` with `count` dimensions from `dim` on as one of the given size.
Tensor merged(const Tensor& ordered, int dim, int count, int64_t size) {
  Shape shape;
  for (int d = 0; d < dim; ++d) shape.push_back(ordered.dim(d));
  shape.push_back(size);
  for (int d = dim + count; d < ordered.ndim(); ++d) shape.push_back(ordered.dim(d));
  return reshape(ordered, shape);
}

Tensor as_assigned(const Tensor& values, int ndim) {
  return reshape(values, without_leading_ones(values.shape(), ndim));
}

/// The order of dimensions that brings the first `count` of `ndim` to position `front`.
Dims moved_to(int front, int count, int ndim) {
  Dims order;
  for (int d = 0; d < front; ++d) order.push_back(count + d);
  for (int d = 0; d < count; ++d) order.push_back(d);
  for (int d = count + front; d < ndim; ++d) order.push_back(d);
  return order;
}

Dims inverse(const Dims& order) {
  Dims result = order;
  for (int d = 0; d < order.size(); ++d) result[static_cast<int>(order[d])] = d;
  return result;
}

}  // namespace

Tensor index(const Tensor& x, std::initializer_list<TensorIndex> indices) {
  return index(x, Indices(indices.begin(), indices.size()));
}

Tensor index(const Tensor& x, Indices indices) {
  const profile::OpRange range("index", {x});
  const Chosen chosen = choose("index", x, indices);
  if (chosen.at.empty()) return chosen.view;
  const Places p = places_of("index", chosen);
  // Neighbours are taken where they stand, so that the result is in row-major order.
  const Tensor ordered = p.front > 0 ? chosen.view : permute(chosen.view, p.order);
  const Tensor rows = merged(ordered, p.front, static_cast<int>(chosen.at.size()), p.size);
  const Tensor taken = index_select(rows, p.front, flatten(p.positions));
  Shape shape;
  for (int d = 0; d < p.front; ++d) shape.push_back(rows.dim(d));
  for (const int64_t size : p.positions.shape()) shape.push_back(size);
  for (int d = p.front + 1; d < rows.ndim(); ++d) shape.push_back(rows.dim(d));
  return reshape(taken, shape);
}

const Tensor& index_put_(const Tensor& x, std::initializer_list<TensorIndex> indices,
                         const Tensor& values) {
  return index_put_(x, Indices(indices.begin(), indices.size()), values);
}

const Tensor& index_put_(const Tensor& x, Indices indices, const Tensor& values_in) {
  const profile::OpRange range("index_put_", {x, values_in});
  autograd::check_in_place("index_put_", x);
  const Chosen chosen = choose("index_put_", x, indices);
  if (chosen.at.empty()) {
    copy_(chosen.view, as_assigned(values_in, chosen.view.ndim()));
    return x;
  }
  const Places p = places_of("index_put_", chosen);
  const Tensor rows =
      merged(permute(chosen.view, p.order), 0, static_cast<int>(chosen.at.size()), p.size);
  const int count = p.positions.ndim();
  // The values in the order of index()'s result, then with the positions' dimensions in front.
  Shape shape = p.positions.shape();
  for (int d = 1; d < rows.ndim(); ++d) shape.push_back(rows.dim(d));
  const Dims order = moved_to(p.front, count, shape.size());
  Shape wanted;
  for (const int64_t d : order) wanted.push_back(shape[static_cast<int>(d)]);
  const Tensor values = as_assigned(values_in, wanted.size());
  LATHE_CHECK(ShapeError, broadcast_shapes("index_put_", wanted, values.shape()) == wanted,
              "index_put_: values do not broadcast to ", wanted, " (values: ", values, ", x: ", x,
              ")");
  const Tensor cast_values = cast(to_device(values, x.device()), x.dtype());
  const Tensor in_front = permute(expand(cast_values, wanted), inverse(order));
  // On a GPU, values for one element need an order, which index_put() gives them.
  const bool written_here = x.device().is_cpu() && rows.shares_storage(x) &&
                            !autograd::wants_record_in_place(x, {values});
  if (written_here) {
    const Tensor apart = in_front.shares_storage(x) ? clone(in_front) : in_front;
    cpu::index_write(rows, contiguous(flatten(p.positions)),
                     merged(apart, 0, count, p.positions.numel()));
    x.bump_version();
    return x;
  }
  const Tensor written = index_put(rows, {p.positions}, in_front);
  Shape ordered;
  for (const int64_t d : p.order) ordered.push_back(chosen.view.dim(d));
  copy_(chosen.view, permute(reshape(written, ordered), inverse(p.order)));
  return x;
}

const Tensor& index_put_(const Tensor& x, std::initializer_list<TensorIndex> indices,
                         Scalar value) {
  return index_put_(x, Indices(indices.begin(), indices.size()), value);
}

const Tensor& index_put_(const Tensor& x, Indices indices, Scalar value) {
  const profile::OpRange range("index_put_", {x});
  check_number("index_put_", value, x);
  return index_put_(x, indices, full({}, value, {.dtype = x.dtype()}));
}

}  // namespace lathe
