// bincount, histc and unique, by sums at indices and by sorting. Contracts: counting.h.
#include "lathe/ops/counting.h"

#include <algorithm>
#include <cmath>

#include "lathe/autograd/grad_mode.h"
#include "lathe/core/hooks/range.h"
#include "lathe/core/hooks/watch.h"
#include "lathe/core/visit.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/cumsum.h"
#include "lathe/ops/floating_check.h"
#include "lathe/ops/index.h"
#include "lathe/ops/join.h"
#include "lathe/ops/nonzero.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/scatter.h"
#include "lathe/ops/sort.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"
#include "lathe/ops/where.h"

namespace lathe {

/// How often each number of `places` [n] occurs, or its weights' sum.
static Tensor count_places(const Tensor& places, int64_t size, const Tensor& weights) {
  const Tensor none = zeros({size}, {.dtype = weights.dtype(), .device = places.device()});
  return index_add(none, 0, places, weights);
}

/// How often each number of the dense `places` (i64) on the CPU occurs.
static Tensor count_each(const Tensor& places, int64_t size) {
  const Tensor counts = zeros({size}, {.dtype = kI64});
  int64_t* const count = counts.data<int64_t>();
  const int64_t* const place = places.data<int64_t>();
  for (int64_t k = 0; k < places.numel(); ++k) ++count[place[k]];
  return counts;
}

Tensor bincount(const Tensor& x, const BincountOptions& opt) {
  const profile::OpRange range("bincount", {x});
  LATHE_CHECK(DTypeError, x.dtype() == kI64 || x.dtype() == kI32,
              "bincount: x must be i64 or i32 (x: ", x, ")");
  LATHE_CHECK(ShapeError, x.ndim() == 1, "bincount: x must be [n] (x: ", x, ")");
  LATHE_CHECK(ValueError, opt.min_length >= 0, "bincount: min_length must not be negative, got ",
              opt.min_length);
  const Tensor& weights = opt.weights;
  if (weights.defined()) {
    LATHE_CHECK(DTypeError, is_floating(weights.dtype()),
                "bincount: weights must be floating (weights: ", weights, ")");
    LATHE_CHECK(ShapeError, weights.shape() == x.shape(),
                "bincount: weights must have x's shape (x: ", x, ", weights: ", weights, ")");
  }
  const int64_t longest = x.numel() == 0 ? 0 : max(x).item<int64_t>() + 1;
  const int64_t size = std::max({longest, opt.min_length, int64_t{0}});
  const Tensor places = cast(x, kI64);
  check_index("bincount", places, size);  // a negative number
  if (weights.defined()) return count_places(x, size, weights);
  if (x.device().is_cpu() && !profile::watched()) return count_each(contiguous(places), size);
  return count_places(x, size, ones(x.shape(), {.dtype = kI64, .device = x.device()}));
}

Tensor histc(const Tensor& x_in, const HistcOptions& opt) {
  const profile::OpRange range("histc", {x_in});
  check_floating("histc", x_in);
  LATHE_CHECK(ValueError, opt.bins > 0, "histc: bins must be positive, got ", opt.bins);
  const NoGrad off;
  const Tensor x = reshape(cast(x_in, compute_dtype(x_in.dtype())), {x_in.numel()});
  double low = opt.low, high = opt.high;
  if (low == 0 && high == 0 && x.numel() > 0) {
    low = min(x).item<double>();
    high = max(x).item<double>();
  }
  LATHE_CHECK(ValueError, std::isfinite(low) && std::isfinite(high) && low <= high,
              "histc: the range from ", low, " to ", high,
              " is not finite and ascending (x: ", x_in, ")");
  if (low == high) {
    low -= 1;
    high += 1;
  }
  const Tensor inside = logical_and(ge(x, low), le(x, high));
  // In x's dtype and in this order, which decides about numbers on a border, as in PyTorch.
  const Tensor scaled =
      div(mul(sub(where(inside, x, low), low), static_cast<double>(opt.bins)), high - low);
  const Tensor bin = cast(clamp(floor(scaled), {.low = 0, .high = opt.bins - 1}), kI64);
  return cast(count_places(bin, opt.bins, cast(inside, kI64)), x_in.dtype());
}

Uniques unique(const Tensor& x) {
  const profile::OpRange range("unique", {x});
  const NoGrad off;
  const TensorOptions options{.dtype = kI64, .device = x.device()};
  const int64_t n = x.numel();
  if (n == 0) {
    return {empty({0}, {.dtype = x.dtype(), .device = x.device()}), empty(x.shape(), options),
            empty({0}, options)};
  }
  const auto [sorted, order] = sort(reshape(x.detach(), {n}), 0);
  const Tensor changes = ne(narrow(sorted, 0, 1, n - 1), narrow(sorted, 0, 0, n - 1));
  const Tensor first = cat({ones({1}, {.dtype = kBool, .device = x.device()}), changes});
  const Tensor starts = select(nonzero(first), 1, 0);
  const Tensor ends = cat({narrow(starts, 0, 1, starts.numel() - 1), full({1}, n, options)});
  const Tensor numbers = sub(cumsum(first, 0), 1);
  return {index_select(sorted, 0, starts),
          reshape(put(zeros({n}, options), order, numbers), x.shape()), sub(ends, starts)};
}

}  // namespace lathe
