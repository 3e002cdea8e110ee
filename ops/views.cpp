// Views: their geometry, checks and gradients. Contracts: views.h.
#include "lathe/ops/views.h"

#include <algorithm>

#include "lathe/autograd/grad_mode.h"
#include "lathe/autograd/meta.h"
#include "lathe/autograd/record.h"
#include "lathe/core/checked_size.h"
#include "lathe/core/hooks/range.h"
#include "lathe/core/strided_loop.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/strided_adjoint.h"

namespace lathe {

using autograd::Needs;
using autograd::record;

namespace {

/// What a view of x counts as a view of: what x is a view of, or x. A leaf that requires grad gets
/// no gradient from a base, so it is always x there.
IntrusivePtr<TensorImpl> base_for_view(const Tensor& x) {
  const TensorImpl& impl = x.impl();
  const bool is_leaf_with_grad =
      impl.meta != nullptr && impl.meta->requires_grad && !impl.meta->grad_fn;
  return impl.base && !is_leaf_with_grad ? impl.base : x.handle();
}

/// A view of x's storage that knows its base, with its gradient recorded.
template <class Backward>
Tensor make_view(const char* op, const Tensor& x, const Shape& shape, const Strides& strides,
                 int64_t offset, Backward&& backward) {
  Tensor y = alias(x, shape, strides, offset);
  if (!inference_enabled()) y.impl().base = base_for_view(x);
  record(op, y, {x}, std::forward<Backward>(backward));
  const TensorImpl* base = y.impl().base.get();
  if (base != nullptr && base->meta != nullptr && y.impl().meta == nullptr) {
    // Made while nothing is recorded: it is a constant, even if the base was written before.
    if (base->meta->history > 0) autograd::meta_of(y).history = base->meta->history;
  }
  return y;
}

/// Every step-th element of `dim` from `first` on, `size` of them; `dim` goes away if `drop`. It is
/// computed for x's own strides, which make the view, and for dense ones, which place the gradient.
Geometry part_of(const Geometry& x, int dim, int64_t first, int64_t size, int64_t step, bool drop) {
  Geometry part = x;
  part.offset += first * x.strides[dim];
  part.shape[dim] = size;
  if (size > 1) part.strides[dim] *= step;
  if (drop) {
    part.shape.erase(dim);
    part.strides.erase(dim);
  }
  return part;
}

/// Records a view of part of x: its gradient goes to the same part of a tensor of zeros.
Tensor make_part(const char* op, const Tensor& x, int dim, int64_t first, int64_t size,
                 int64_t step = 1, bool drop = false) {
  const Geometry part = part_of(geometry_of(x), dim, first, size, step, drop);
  return make_view(op, x, part.shape, part.strides, part.offset,
                   [xs = x.shape(), dim, first, size, step, drop](const Tensor& dy, const Needs&) {
                     const Geometry whole = dense_geometry(xs);
                     const Geometry place = part_of(whole, dim, first, size, step, drop);
                     return Tensors{scatter_strided(dy, place, whole)};
                   });
}

/// `shape` with its -1 replaced by a size.
Shape complete_shape(const char* op, const Tensor& x, Shape shape) {
  int unknown = -1;
  CheckedSize product = 1;  // of the sizes that are given
  for (int d = 0; d < shape.size(); ++d) {
    if (shape[d] == -1) {
      LATHE_CHECK(ShapeError, unknown < 0, op, ": only one size can be -1, got ", shape);
      unknown = d;
    } else {
      LATHE_CHECK(ShapeError, shape[d] >= 0, op, ": negative size ", shape[d], " in ", shape);
      product *= shape[d];
    }
  }
  if (unknown >= 0) {
    const int64_t known = product.value_or_throw<ShapeError>(op, ": the sizes in ", shape,
                                                             " are too large (x: ", x, ")");
    LATHE_CHECK(ShapeError, known != 0 && x.numel() % known == 0, op, ": -1 in ", shape,
                known == 0 ? " is ambiguous beside a 0" : " does not come out even", " (x: ", x,
                ")");
    shape[unknown] = x.numel() / known;
  }
  LATHE_CHECK(ShapeError, numel_of(shape) == x.numel(), op, ": ", x.numel(),
              " elements do not make ", shape, " (x: ", x, ")");
  return shape;
}

/// Strides that show x as `shape` without a copy, if there are any: each run of x's dimensions that
/// is dense in itself may be divided in other ways.
std::optional<Strides> view_strides(const Tensor& x, const Shape& shape) {
  if (x.numel() == 0) return contiguous_strides(shape);
  Strides strides = contiguous_strides(shape);
  int at = shape.size() - 1;
  int64_t run = 1, run_step = x.ndim() == 0 ? 1 : x.strides().back();
  int64_t taken = 1;
  for (int d = x.ndim() - 1; d >= 0; --d) {
    run *= x.shape()[d];
    const bool run_ends = d == 0 || (x.shape()[d - 1] != 1 && x.strides()[d - 1] != run * run_step);
    if (!run_ends) continue;
    taken = 1;
    while (at >= 0 && (taken < run || shape[at] == 1)) {
      strides[at] = taken * run_step;
      taken *= shape[at--];
    }
    if (taken != run) return std::nullopt;
    if (d > 0) {
      run = 1;
      run_step = x.strides()[d - 1];
    }
  }
  return strides;
}

/// "[2,3]": sizes as a shape is printed, any number of them.
std::string list_text(const std::vector<int64_t>& sizes) {
  std::string text;
  for (const int64_t size : sizes) text += concat(text.empty() ? "[" : ",", size);
  return text.empty() ? "[]" : text + "]";
}

Tensor view_as(const char* op, const Tensor& x, const Shape& shape, const Strides& strides) {
  return make_view(
      op, x, shape, strides, x.offset(),
      [xs = x.shape()](const Tensor& dy, const Needs&) { return Tensors{reshape(dy, xs)}; });
}

}  // namespace

Tensor view(const Tensor& x, const Shape& wanted) {
  const profile::OpRange range("view", {x}, profile::Kind::kView);
  profile::note_arguments(wanted);
  const Shape shape = complete_shape("view", x, wanted);
  const auto strides = view_strides(x, shape);
  LATHE_CHECK(ShapeError, strides.has_value(), "view: strides ", x.strides(), " cannot show ",
              shape, " without a copy; use reshape (x: ", x, ")");
  return view_as("view", x, shape, *strides);
}

Tensor reshape(const Tensor& x, const Shape& wanted) {
  const profile::OpRange range("reshape", {x}, profile::Kind::kView);
  profile::note_arguments(wanted);
  const Shape shape = complete_shape("reshape", x, wanted);
  if (shape == x.shape()) return x;
  if (const auto strides = view_strides(x, shape)) return view_as("reshape", x, shape, *strides);
  return view_as("reshape", contiguous(x), shape, contiguous_strides(shape));
}

Tensor flatten(const Tensor& x, int64_t first_in, int64_t last_in) {
  const profile::OpRange range("flatten", {x}, profile::Kind::kView);
  profile::note_arguments(first_in, last_in);
  const int first = wrap_dim("flatten", first_in, x.ndim());
  const int last = wrap_dim("flatten", last_in, x.ndim());
  LATHE_CHECK(IndexError, first <= last, "flatten: dimension ", first_in, " comes after ", last_in,
              " (x: ", x, ")");
  Shape shape;
  int64_t merged = 1;
  for (int d = 0; d < x.ndim(); ++d) {
    if (d >= first && d <= last) {
      merged *= x.shape()[d];
      if (d == last) shape.push_back(merged);
    } else {
      shape.push_back(x.shape()[d]);
    }
  }
  if (x.ndim() == 0) shape.push_back(1);
  return reshape(x, shape);
}

Tensor squeeze(const Tensor& x) {
  const profile::OpRange range("squeeze", {x}, profile::Kind::kView);
  Shape shape;
  Strides strides;
  for (int d = 0; d < x.ndim(); ++d) {
    if (x.shape()[d] == 1) continue;
    shape.push_back(x.shape()[d]);
    strides.push_back(x.strides()[d]);
  }
  return view_as("squeeze", x, shape, strides);
}

Tensor squeeze(const Tensor& x, int64_t dim_in) {
  const profile::OpRange range("squeeze", {x}, profile::Kind::kView);
  profile::note_arguments(dim_in);
  const int dim = wrap_dim("squeeze", dim_in, x.ndim());
  Shape shape = x.shape();
  Strides strides = x.strides();
  if (x.ndim() > 0 && shape[dim] == 1) {
    shape.erase(dim);
    strides.erase(dim);
  }
  return view_as("squeeze", x, shape, strides);
}

Tensor unsqueeze(const Tensor& x, int64_t dim_in) {
  const profile::OpRange range("unsqueeze", {x}, profile::Kind::kView);
  profile::note_arguments(dim_in);
  const int dim = wrap_dim("unsqueeze", dim_in, x.ndim() + 1);
  Shape shape = x.shape();
  Strides strides = x.strides();
  strides.insert(dim, dim < x.ndim() ? shape[dim] * strides[dim] : 1);
  shape.insert(dim, 1);
  return view_as("unsqueeze", x, shape, strides);
}

Tensor transpose(const Tensor& x, int64_t a, int64_t b) {
  const profile::OpRange range("transpose", {x}, profile::Kind::kView);
  profile::note_arguments(a, b);
  Dims order;
  for (int d = 0; d < x.ndim(); ++d) order.push_back(d);
  const int i = wrap_dim("transpose", a, x.ndim()), j = wrap_dim("transpose", b, x.ndim());
  if (x.ndim() > 0) std::swap(order[i], order[j]);
  return permute(x, order);
}

Tensor permute(const Tensor& x, const Dims& order_in) {
  const profile::OpRange range("permute", {x}, profile::Kind::kView);
  profile::note_arguments(order_in);
  LATHE_CHECK(ShapeError, order_in.size() == x.ndim(), "permute: ", order_in,
              " does not name all dimensions once (x: ", x, ")");
  dim_mask("permute", order_in, x.ndim());  // range and repetition
  Shape shape = x.shape();
  Strides strides = x.strides();
  Dims inverse = x.shape();
  for (int d = 0; d < x.ndim(); ++d) {
    const int from = wrap_dim("permute", order_in[d], x.ndim());
    shape[d] = x.shape()[from];
    strides[d] = x.strides()[from];
    inverse[from] = d;
  }
  return make_view(
      "permute", x, shape, strides, x.offset(),
      [inverse](const Tensor& dy, const Needs&) { return Tensors{permute(dy, inverse)}; });
}

Tensor expand(const Tensor& x, const Shape& wanted) {
  const profile::OpRange range("expand", {x}, profile::Kind::kView);
  profile::note_arguments(wanted);
  LATHE_CHECK(ShapeError, wanted.size() >= x.ndim(), "expand: ", wanted,
              " has fewer dimensions than x (x: ", x, ")");
  Shape shape = wanted;
  const int lead = wanted.size() - x.ndim();
  for (int d = 0; d < shape.size(); ++d) {
    const bool is_new = d < lead;
    const int64_t size = is_new ? 1 : x.shape()[d - lead];
    if (shape[d] == -1 && !is_new) shape[d] = size;
    LATHE_CHECK(ShapeError, shape[d] == size || (size == 1 && shape[d] >= 0), "expand: size ", size,
                " of dimension ", d, " does not expand to ", wanted[d], " in ", wanted, " (x: ", x,
                ")");
  }
  return make_view(
      "expand", x, shape, broadcast_strides(x, shape), x.offset(),
      [xs = x.shape()](const Tensor& dy, const Needs&) { return Tensors{sum_to_shape(dy, xs)}; });
}

Tensor select(const Tensor& x, int64_t dim_in, int64_t index) {
  const profile::OpRange range("select", {x}, profile::Kind::kView);
  profile::note_arguments(dim_in, index);
  LATHE_CHECK(IndexError, x.ndim() > 0,
              "select: a 0-d tensor has no dimension to select from (x: ", x, ")");
  const int dim = wrap_dim("select", dim_in, x.ndim());
  const int64_t size = x.shape()[dim];
  LATHE_CHECK(IndexError, index >= -size && index < size, "select: index ", index,
              " is outside dimension ", dim, " of size ", size, " (x: ", x, ")");
  return make_part("select", x, dim, index < 0 ? index + size : index, 1, 1, /*drop=*/true);
}

Tensor narrow(const Tensor& x, int64_t dim_in, int64_t start, int64_t length) {
  const profile::OpRange range("narrow", {x}, profile::Kind::kView);
  profile::note_arguments(dim_in, start, length);
  LATHE_CHECK(IndexError, x.ndim() > 0, "narrow: a 0-d tensor has no dimension (x: ", x, ")");
  const int dim = wrap_dim("narrow", dim_in, x.ndim());
  const int64_t size = x.shape()[dim];
  const int64_t first = start < 0 ? start + size : start;
  LATHE_CHECK(IndexError, length >= 0 && first >= 0 && first <= size && length <= size - first,
              "narrow: ", length, " elements from ", start, " are outside dimension ", dim,
              " of size ", size, " (x: ", x, ")");
  return make_part("narrow", x, dim, first, length);
}

Tensor slice(const Tensor& x, int64_t dim_in, int64_t start, int64_t stop, int64_t step) {
  const profile::OpRange range("slice", {x}, profile::Kind::kView);
  profile::note_arguments(dim_in, start, stop, step);
  LATHE_CHECK(IndexError, x.ndim() > 0, "slice: a 0-d tensor has no dimension (x: ", x, ")");
  LATHE_CHECK(ValueError, step > 0, "slice: step must be positive, got ", step);
  const int dim = wrap_dim("slice", dim_in, x.ndim());
  const int64_t size = x.shape()[dim];
  const auto clip = [size](int64_t i) {
    return std::clamp<int64_t>(i < 0 ? i + size : i, 0, size);
  };
  const int64_t first = clip(start), last = std::max(clip(stop), first);
  return make_part("slice", x, dim, first, last == first ? 0 : 1 + (last - first - 1) / step, step);
}

Tensors split(const Tensor& x, int64_t size, int64_t dim_in) {
  const profile::OpRange range("split", {x}, profile::Kind::kView);
  const int dim = wrap_dim("split", dim_in, x.ndim());
  const int64_t total = x.dim(dim);
  LATHE_CHECK(ValueError, size > 0 || (size == 0 && total == 0),
              "split: size must be positive, got ", size, " (x: ", x, ")");
  if (total == 0) return {narrow(x, dim, 0, 0)};
  Tensors parts;
  for (int64_t at = 0; at < total; at += size) {
    parts.push_back(narrow(x, dim, at, std::min(size, total - at)));
  }
  return parts;
}

Tensors split(const Tensor& x, const std::vector<int64_t>& sizes, int64_t dim_in) {
  const profile::OpRange range("split", {x}, profile::Kind::kView);
  const int dim = wrap_dim("split", dim_in, x.ndim());
  CheckedSize sum = 0;
  for (const int64_t size : sizes) {
    LATHE_CHECK(ShapeError, size >= 0, "split: negative size ", size, " in ", list_text(sizes));
    sum += size;
  }
  const int64_t total = sum.value_or_throw<ShapeError>("split: the sizes ", list_text(sizes),
                                                       " are too large (x: ", x, ")");
  LATHE_CHECK(ShapeError, total == x.dim(dim), "split: sizes ", list_text(sizes), " add up to ",
              total, ", dimension ", dim, " has ", x.dim(dim), " (x: ", x, ")");
  Tensors parts;
  int64_t at = 0;
  for (const int64_t size : sizes) {
    parts.push_back(narrow(x, dim, at, size));
    at += size;
  }
  return parts;
}

Tensors chunk(const Tensor& x, int64_t count, int64_t dim) {
  const profile::OpRange range("chunk", {x}, profile::Kind::kView);
  LATHE_CHECK(ValueError, count > 0, "chunk: count must be positive, got ", count);
  const int64_t size = x.dim(dim);
  if (size > 0) return split(x, size / count + (size % count != 0 ? 1 : 0), dim);
  Tensors parts;
  for (int64_t i = 0; i < count; ++i) parts.push_back(narrow(x, dim, 0, 0));
  return parts;
}

Tensor as_strided(const Tensor& x, const Shape& shape, const Strides& strides, int64_t offset) {
  const profile::OpRange range("as_strided", {x}, profile::Kind::kView);
  LATHE_CHECK(ShapeError, shape.size() == strides.size(), "as_strided: shape ", shape,
              " and strides ", strides, " differ in number");
  int64_t last = offset;
  bool overflow = false;
  for (int d = 0; d < shape.size(); ++d) {
    LATHE_CHECK(ShapeError, strides[d] >= 0, "as_strided: negative stride in ", strides);
    int64_t reach = 0;
    overflow |= __builtin_mul_overflow(std::max<int64_t>(shape[d] - 1, 0), strides[d], &reach);
    overflow |= __builtin_add_overflow(last, reach, &last);
  }
  const int64_t elements = x.impl().storage->bytes() / static_cast<int64_t>(size_of(x.dtype()));
  LATHE_CHECK(IndexError, offset >= 0 && (numel_of(shape) == 0 || (!overflow && last < elements)),
              "as_strided: shape ", shape, ", strides ", strides, ", offset ", offset,
              " leave the storage of ", elements, " elements (x: ", x, ")");
  LATHE_CHECK(ValueError, !(x.requires_grad() && has_overlap(x)),
              "as_strided: elements of x share memory, so it has no gradient here; use contiguous "
              "first (x: ",
              x, ")");
  return make_view(
      "as_strided", x, shape, strides, offset,
      [whole = geometry_of(x), part = Geometry{shape, strides, offset}](
          const Tensor& dy, const Needs&) { return Tensors{scatter_strided(dy, part, whole)}; });
}

namespace autograd {

NodePtr make_view_node(const Tensor& base, const Tensor& view) {
  // The node of an as_strided view of base, without making the tensor: `view` already is that
  // tensor.
  const EnableGrad recording;
  const Tensor fresh = as_strided(base, view.shape(), view.strides(), view.offset());
  return meta_of(fresh).grad_fn;
}

}  // namespace autograd

}  // namespace lathe
