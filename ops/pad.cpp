// pad: a fill and a copy (core/copy, on any device), with the gradient; for borders made of x,
// copies of parts, and of rows on the CPU (index_kernels/pad_cpu.cpp). Contracts: pad.h.
#include "lathe/ops/pad.h"

#include <algorithm>

#include "lathe/autograd/record.h"
#include "lathe/core/checked_size.h"
#include "lathe/core/copy.h"
#include "lathe/core/hooks/range.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/index.h"
#include "lathe/ops/index_kernels.h"
#include "lathe/ops/memory_format.h"
#include "lathe/ops/promote.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"

namespace lathe {

using autograd::Needs;

namespace {

/// The amounts before and after each dimension of x, from the order of the argument `amounts`.
struct Borders {
  Dims before, after;
};

Borders check_borders(const Tensor& x, const std::vector<int64_t>& amounts) {
  LATHE_CHECK(ValueError,
              amounts.size() % 2 == 0 && amounts.size() <= 2 * static_cast<size_t>(x.ndim()),
              "pad: ", amounts.size(), " amounts are not two for each of at most ", x.ndim(),
              " dimensions (x: ", x, ")");
  Borders b{Dims::filled(x.ndim(), 0), Dims::filled(x.ndim(), 0)};
  for (size_t i = 0; i < amounts.size(); i += 2) {
    const int d = x.ndim() - 1 - static_cast<int>(i / 2);
    b.before[d] = amounts[i];
    b.after[d] = amounts[i + 1];
    const CheckedSize size = CheckedSize(x.shape()[d]) + b.before[d] + b.after[d];
    const int64_t left = x.shape()[d] + std::min<int64_t>(b.before[d], 0);
    const bool is_cut_once = left >= 0 && left + std::min<int64_t>(b.after[d], 0) >= 0;
    LATHE_CHECK(ValueError, !size.overflowed() && is_cut_once, "pad: {", amounts[i], ", ",
                amounts[i + 1], "} does not go with size ", x.shape()[d], " of dimension ", d,
                " (x: ", x, ")");
  }
  return b;
}

/// The order of the result: that of x, and NHWC for a view of NHWC images, such as every other
/// pixel.
MemoryFormat order_of(const Tensor& x) {
  const bool channels_are_neighbours = x.ndim() == 4 && x.dim(1) > 1 && x.stride(1) == 1 &&
                                       x.stride(3) >= x.dim(1) && !x.is_contiguous();
  return channels_are_neighbours ? kChannelsLast : memory_format_of(x);
}

/// A view of x without what negative borders cut off.
Tensor crop(const Tensor& x, const Dims& before, const Dims& after) {
  Tensor y = x;
  for (int d = 0; d < x.ndim(); ++d) {
    const int64_t start = std::max<int64_t>(-before[d], 0);
    const int64_t length = x.shape()[d] - start - std::max<int64_t>(-after[d], 0);
    if (length != x.shape()[d]) y = narrow(y, d, start, length);
  }
  return y;
}

}  // namespace

Tensor pad(const Tensor& x, const std::vector<int64_t>& amounts, Scalar value) {
  const profile::OpRange range("pad", {x});
  profile::note_arguments(amounts, value);
  check_number("pad", value, x);
  const Borders b = check_borders(x, amounts);
  const Tensor part = crop(x, b.before, b.after);
  Shape shape = part.shape(), inside = part.shape();
  Dims cut_before = Dims::filled(x.ndim(), 0), cut_after = cut_before;  // what the gradient crops
  for (int d = 0; d < x.ndim(); ++d) {
    cut_before[d] = -std::max<int64_t>(b.before[d], 0);
    cut_after[d] = -std::max<int64_t>(b.after[d], 0);
    shape[d] -= cut_before[d] + cut_after[d];
  }

  const Strides strides = dense_strides(shape, order_of(x));
  Tensor y = empty_strided(shape, strides, x.dtype(), x.device());
  fill_values(y, value);
  int64_t start = 0;
  for (int d = 0; d < x.ndim(); ++d) start -= cut_before[d] * strides[d];
  copy_values(alias(y, inside, strides, y.offset() + start), part);

  autograd::record("pad", y, {part}, [cut_before, cut_after](const Tensor& dy, const Needs&) {
    return Tensors{crop(dy, cut_before, cut_after)};
  });
  return y;
}

/// The borders that pad() adds along one dimension.
struct Border {
  int dim;
  int64_t n, before, after;  // the size without borders; what is added

  /// What crops leave of the size.
  int64_t uncropped() const {
    return n + std::min<int64_t>(before, 0) + std::min<int64_t>(after, 0);
  }

  /// The positions that the n + before + after elements are copied from.
  Tensor sources(PadMode mode, Device device) const {
    const Tensor at = arange(-before, n + after, 1, {.dtype = kI64, .device = device});
    if (mode == PadMode::kReflect) return sub(n - 1, abs(sub(n - 1, abs(at))));
    if (mode == PadMode::kReplicate) return clamp(at, 0, n - 1);
    const int64_t first = std::max<int64_t>(-before, 0);
    return at.numel() == 0 ? at : add(remainder(sub(at, first), uncropped()), first);
  }
};

/// Elements [start, start + length) of `part` along `dim` = those from `from` on: every one,
/// backwards for a step of -1, one of them for 0. They lie in the memory around `part`.
static void copy_along(const Tensor& part, int dim, int64_t start, int64_t length, int64_t from,
                       int64_t step) {
  if (length == 0) return;
  Shape shape = part.shape();
  Strides source = part.strides();
  const int64_t stride = source[dim];
  shape[dim] = length;
  source[dim] = stride * step;
  copy_values(alias(part, shape, part.strides(), part.offset() + start * stride),
              alias(part, shape, source, part.offset() + from * stride));
}

/// Fills the borders around `part`.
static void fill_border(const Tensor& part, const Border& b, PadMode mode) {
  const bool circular = mode == PadMode::kCircular, reflect = mode == PadMode::kReflect;
  const int64_t step = circular ? 1 : reflect ? -1 : 0;
  copy_along(part, b.dim, -b.before, b.before,
             circular  ? b.n - b.before
             : reflect ? b.before
                       : 0,
             step);
  copy_along(part, b.dim, b.n, b.after, circular ? 0 : b.n - (reflect ? 2 : 1), step);
}

/// x inside borders of its own elements. The last dimension gets its borders first: those of the
/// others are then whole rows.
static Tensor surrounded(const Tensor& x, const std::vector<Border>& borders, PadMode mode) {
  Shape shape = x.shape();
  for (const Border& b : borders) shape[b.dim] += b.before + b.after;
  const Tensor y = empty_in(memory_format_of(x), shape, x.dtype(), x.device());
  int64_t start = y.offset();
  for (const Border& b : borders) start += b.before * y.stride(b.dim);
  Tensor part = alias(y, x.shape(), y.strides(), start);
  const Border& last = borders.back();
  const bool by_rows =
      last.dim == x.ndim() - 1 && x.device().is_cpu() && cpu::has_dense_rows(part, x);
  if (by_rows) {
    cpu::pad_rows(part, x, last.before, last.after, mode);
  } else {
    copy_values(part, x);
  }
  for (auto b = borders.rbegin(); b != borders.rend(); ++b) {
    if (!by_rows || b->dim != last.dim) fill_border(part, *b, mode);
    Shape wider = part.shape();
    wider[b->dim] = shape[b->dim];
    part = alias(y, wider, y.strides(), part.offset() - b->before * y.stride(b->dim));
  }
  return y;
}

Tensor pad(const Tensor& x, const std::vector<int64_t>& amounts, PadMode mode) {
  const profile::OpRange range("pad", {x});
  profile::note_arguments(amounts, mode);
  const Borders all = check_borders(x, amounts);
  std::vector<Border> borders;
  bool crops = false;
  for (int d = 0; d < x.ndim(); ++d) {
    const int64_t n = x.shape()[d], before = all.before[d], after = all.after[d];
    if (before == 0 && after == 0) continue;
    const Border border{d, n, before, after};
    const int64_t longest = mode == PadMode::kReflect    ? n - 1
                            : mode == PadMode::kCircular ? border.uncropped()
                                                         : INT64_MAX;
    LATHE_CHECK(ValueError, n > 0 && before <= longest && after <= longest, "pad: {", before, ", ",
                after, "} is more than size ", n, " of dimension ", d,
                " has for a border of its own elements (x: ", x, ")");
    borders.push_back(border);
    crops = crops || before < 0 || after < 0;
  }
  if (borders.empty()) return clone(x);
  if (crops) {  // a border may hold elements that the other side cuts off, but for kCircular
    Tensor y = x;
    for (const Border& b : borders) y = index_select(y, b.dim, b.sources(mode, x.device()));
    return contiguous(y, memory_format_of(x));
  }
  Tensor y = surrounded(x, borders, mode);
  autograd::record("pad", y, {x}, [borders, mode](const Tensor& dy, const Needs&) {
    Tensor dx = dy;
    for (auto b = borders.rbegin(); b != borders.rend(); ++b) {
      Shape shape = dx.shape();
      shape[b->dim] = b->n;
      dx = index_add(zeros(shape, {.dtype = dy.dtype(), .device = dy.device()}), b->dim,
                     b->sources(mode, dy.device()), dx);
    }
    return Tensors{dx};
  });
  return y;
}

}  // namespace lathe
