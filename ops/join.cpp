// cat and stack: checks, copies and gradients. Contracts: join.h.
#include "lathe/ops/join.h"

#include "lathe/autograd/record.h"
#include "lathe/core/checked_size.h"
#include "lathe/core/copy.h"
#include "lathe/core/hooks/range.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/memory_format.h"
#include "lathe/ops/views.h"

namespace lathe {

using autograd::Needs;

namespace {

/// True for a part of shape [0], which cat skips: loops start from such an empty tensor.
bool is_skipped(const Tensor& t) { return t.ndim() == 1 && t.dim(0) == 0; }

/// The first part that is not skipped, or the first part if all are.
const Tensor& model_of(const Tensors& parts) {
  for (const Tensor& t : parts) {
    if (!is_skipped(t)) return t;
  }
  return parts.front();
}

Shape check_cat(const Tensors& parts, const Tensor& model, int dim) {
  Shape shape = model.shape();
  CheckedSize length = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Tensor& t = parts[i];
    LATHE_CHECK(DeviceError, t.device() == model.device(), "cat: part ", i,
                " is on another device (part ", i, ": ", t, ", another: ", model, ")");
    if (is_skipped(t)) continue;
    Shape rest = t.shape();
    if (t.ndim() == model.ndim()) rest[dim] = model.shape()[dim];
    LATHE_CHECK(ShapeError, rest == model.shape(), "cat: part ", i, " differs outside dimension ",
                dim, " (part ", i, ": ", t, ", another: ", model, ")");
    length += t.shape()[dim];
  }
  shape[dim] = length.value_or_throw<ShapeError>("cat: the sum of the sizes overflows");
  return shape;
}

DType common_dtype(const Tensors& parts) {
  DType dtype = parts.front().dtype();
  for (const Tensor& t : parts) dtype = promote_types(dtype, t.dtype());
  return dtype;
}

/// NHWC if every part is, or is a part of such images. Parts of one pixel are if their strides say
/// so; parts of one channel are not.
bool is_channels_last(const Tensors& parts) {
  for (const Tensor& t : parts) {
    if (is_skipped(t)) continue;
    if (memory_format_of(t) != kChannelsLast && !has_whole_pixels(t)) return false;
  }
  return true;
}

}  // namespace

Tensor cat(const Tensors& parts, int64_t dim_in) {
  const profile::OpRange range("cat", parts);
  profile::note_arguments(dim_in);
  LATHE_CHECK(ValueError, !parts.empty(), "cat: there is nothing to join");
  const Tensor& model = model_of(parts);
  LATHE_CHECK(ShapeError, model.ndim() > 0, "cat: a 0-d tensor has no dimension to join along (",
              model, "); use stack");
  const int dim = wrap_dim("cat", dim_in, model.ndim());
  const Shape shape = check_cat(parts, model, dim);

  const bool nhwc = shape.size() == 4 && is_channels_last(parts);
  const Strides strides = dense_strides(shape, nhwc ? kChannelsLast : kContiguous);
  Tensor y = empty_strided(shape, strides, common_dtype(parts), model.device());
  int64_t start = 0;
  for (const Tensor& t : parts) {
    if (is_skipped(t)) continue;
    copy_values(alias(y, t.shape(), strides, y.offset() + start * strides[dim]), t);
    start += t.shape()[dim];
  }

  // The gradient needs each part's size and dtype, but none of its values.
  struct Part {
    Shape shape;
    DType dtype;
  };
  std::vector<Part> kept;
  kept.reserve(parts.size());
  for (const Tensor& t : parts) kept.push_back({t.shape(), t.dtype()});
  autograd::record("cat", y, parts,
                   [kept = std::move(kept), dim](const Tensor& dy, const Needs& need) {
                     Tensors grads(kept.size());
                     int64_t at = 0;
                     for (size_t i = 0; i < kept.size(); ++i) {
                       const bool skipped = kept[i].shape == Shape{0};
                       const int64_t length = skipped ? 0 : kept[i].shape[dim];
                       if (need[i]) {
                         const Tensor piece =
                             skipped ? flatten(narrow(dy, dim, 0, 0)) : narrow(dy, dim, at, length);
                         grads[i] = cast(piece, kept[i].dtype);
                       }
                       at += length;
                     }
                     return grads;
                   });
  return y;
}

Tensor stack(const Tensors& parts, int64_t dim_in) {
  const profile::OpRange range("stack", parts);
  profile::note_arguments(dim_in);
  LATHE_CHECK(ValueError, !parts.empty(), "stack: there is nothing to join");
  const Tensor& model = parts.front();
  const int dim = wrap_dim("stack", dim_in, model.ndim() + 1);
  Tensors rows;
  rows.reserve(parts.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    LATHE_CHECK(ShapeError, parts[i].shape() == model.shape(),
                "stack: all parts must have one shape (part 0: ", model, ", part ", i, ": ",
                parts[i], ")");
    rows.push_back(unsqueeze(parts[i], dim));
  }
  return cat(rows, dim);
}

/// The parts with at least `ndim` dimensions: a 0-d tensor as one element, [n] as a row, a matrix
/// with a depth of 1.
static Tensors at_least(int ndim, const Tensors& parts) {
  Tensors all;
  for (Tensor part : parts) {
    while (part.ndim() < ndim) part = unsqueeze(part, part.ndim() == 2 ? 2 : 0);
    all.push_back(part);
  }
  return all;
}

Tensor hstack(const Tensors& parts) {
  const profile::OpRange range("hstack", parts);
  const Tensors all = at_least(1, parts);
  return cat(all, all.empty() || all[0].ndim() == 1 ? 0 : 1);
}
Tensor vstack(const Tensors& parts) {
  const profile::OpRange range("vstack", parts);
  return cat(at_least(2, parts), 0);
}
Tensor dstack(const Tensors& parts) {
  const profile::OpRange range("dstack", parts);
  return cat(at_least(3, parts), 2);
}

}  // namespace lathe
