// pad: a fill and a copy (core/copy, on any device), with the gradient; for borders made of x, an
// index_select along each dimension. Contracts: pad.h.
#include "lathe/ops/pad.h"

#include "lathe/autograd/record.h"
#include "lathe/core/checked_size.h"
#include "lathe/core/copy.h"
#include "lathe/core/hooks/range.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/index.h"
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

/// Where in [0, n) the elements at these positions of the padded dimension come from.
static Tensor sources_of(const Tensor& at, int64_t n, PadMode mode) {
  switch (mode) {
    case PadMode::kReflect: return sub(n - 1, abs(sub(n - 1, abs(at))));
    case PadMode::kReplicate: return clamp(at, 0, n - 1);
    case PadMode::kCircular: break;
  }
  return remainder(at, n);
}

Tensor pad(const Tensor& x, const std::vector<int64_t>& amounts, PadMode mode) {
  const profile::OpRange range("pad", {x});
  profile::note_arguments(amounts, mode);
  const Borders b = check_borders(x, amounts);
  Tensor y = x;
  for (int d = 0; d < x.ndim(); ++d) {
    const int64_t n = x.shape()[d], before = b.before[d], after = b.after[d];
    if (before == 0 && after == 0) continue;
    const int64_t longest = mode == PadMode::kReflect    ? n - 1
                            : mode == PadMode::kCircular ? n
                                                         : INT64_MAX;
    LATHE_CHECK(ValueError, n > 0 && before <= longest && after <= longest, "pad: {", before, ", ",
                after, "} is more than size ", n, " of dimension ", d,
                " has for a border of its own elements (x: ", x, ")");
    const Tensor at = arange(-before, n + after, 1, {.dtype = kI64, .device = x.device()});
    y = index_select(y, d, sources_of(at, n, mode));
  }
  return y.is_same(x) ? clone(x) : contiguous(y, memory_format_of(x));
}

}  // namespace lathe
