// Statistics, by sorting, gathering and reductions. Contracts: statistics.h.
#include "lathe/ops/statistics.h"

#include <limits>

#include "lathe/core/hooks/range.h"
#include "lathe/core/visit.h"
#include "lathe/ops/argmax.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/floating_check.h"
#include "lathe/ops/index.h"
#include "lathe/ops/join.h"
#include "lathe/ops/rearrange.h"
#include "lathe/ops/sort.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"
#include "lathe/ops/where.h"

namespace lathe {

namespace {

/// The size of x's lines along `dim`.
/// throws: ShapeError if they are empty.
int64_t line_size(const char* op, const Tensor& x, int dim) {
  const int64_t n = x.ndim() == 0 ? 1 : x.shape()[dim];
  LATHE_CHECK(ShapeError, n > 0, op, ": dimension ", dim, " is empty (x: ", x, ")");
  return n;
}

/// Whether each line along `dim` of a floating x has a NaN; `dim` stays, with size 1.
Tensor has_nan(const Tensor& x, int dim) {
  return any(isnan(x.detach()), {dim}, {.keepdim = true});
}

/// The elements of x along `dim` at `places`, which has size 1 there.
ValuesAndIndices picked(const Tensor& x, int dim, const Tensor& places, bool keepdim) {
  const Tensor values = gather(x, dim, places);
  if (keepdim || x.ndim() == 0) return {values, places};
  return {squeeze(values, dim), squeeze(places, dim)};
}

}  // namespace

VarAndMean var_mean(const Tensor& x, const Dims& dims, VarOptions opt) {
  const profile::OpRange range("var_mean", {x});
  check_floating("var_mean", x);
  return {var(x, dims, opt), mean(x, dims, {.keepdim = opt.keepdim})};
}

StdAndMean std_mean(const Tensor& x, const Dims& dims, VarOptions opt) {
  const profile::OpRange range("std_mean", {x});
  check_floating("std_mean", x);
  return {std(x, dims, opt), mean(x, dims, {.keepdim = opt.keepdim})};
}

Tensor count_nonzero(const Tensor& x, const Dims& dims) {
  const profile::OpRange range("count_nonzero", {x});
  return sum(ne(x.detach(), 0), dims);
}

Tensor median(const Tensor& x) {
  const profile::OpRange range("median", {x});
  if (x.numel() == 0 && is_floating(x.dtype())) return mean(x);  // NaN
  const Tensor fixed = x.detach(), middle = median(reshape(fixed, {x.numel()}), 0).values;
  if (!is_floating(x.dtype())) return middle;
  // max() shares the gradient among the elements that are the median. A negative median takes part
  // with the other sign: max() could not tell -inf from the elements that do not take part.
  const Tensor ties = logical_or(eq(fixed, middle), isnan(fixed));
  const Tensor sign = sub(1, mul(cast(lt(middle, 0), x.dtype()), 2));
  return mul(max(where(ties, mul(x, sign), -std::numeric_limits<double>::infinity())), sign);
}

ValuesAndIndices median(const Tensor& x, int64_t dim_in, ReduceOptions opt) {
  const profile::OpRange range("median", {x});
  const int dim = wrap_dim("median", dim_in, x.ndim());
  const int64_t n = line_size("median", x, dim);
  const Tensor order = argsort(x, dim);
  const auto at = [&](int64_t place) {
    return x.ndim() == 0 ? order : narrow(order, dim, place, 1);
  };
  Tensor place = at((n - 1) / 2);
  if (is_floating(x.dtype())) {  // argmax finds the first NaN
    place = where(has_nan(x, dim), argmax(x.detach(), dim, {.keepdim = true}), place);
  }
  return picked(x, dim, place, opt.keepdim);
}

ValuesAndIndices kthvalue(const Tensor& x, int64_t k, int64_t dim_in, ReduceOptions opt) {
  const profile::OpRange range("kthvalue", {x});
  const int dim = wrap_dim("kthvalue", dim_in, x.ndim());
  const int64_t n = x.ndim() == 0 ? 1 : x.shape()[dim];
  LATHE_CHECK(ValueError, k >= 1 && k <= n, "kthvalue: k must be in [1, ", n, "], got ", k,
              " (x: ", x, ")");
  const Tensor first = topk(x.detach(), k, dim, {.largest = false}).indices;
  return picked(x, dim, x.ndim() == 0 ? first : narrow(first, dim, k - 1, 1), opt.keepdim);
}

Tensor quantile(const Tensor& x, double q, const QuantileOptions& opt) {
  return quantile(x, full({}, q, {.dtype = x.dtype(), .device = x.device()}), opt);
}

Tensor quantile(const Tensor& x_in, const Tensor& q, const QuantileOptions& opt) {
  const profile::OpRange range("quantile", {x_in, q});
  check_floating("quantile", x_in);
  LATHE_CHECK(DTypeError, q.dtype() == x_in.dtype(), "quantile: q must have x's dtype (x: ", x_in,
              ", q: ", q, ")");
  LATHE_CHECK(ShapeError, q.ndim() <= 1, "quantile: q must be [Q] or 0-d (q: ", q, ")");
  const Tensor inside = logical_and(ge(q.detach(), 0), le(q.detach(), 1));
  LATHE_CHECK(ValueError, all(inside).item<bool>(), "quantile: q must be in [0, 1] (q: ", q, ")");
  // The lines become the last dimension.
  const bool whole = !opt.dim || x_in.ndim() == 0;
  const int dim = opt.dim ? wrap_dim("quantile", *opt.dim, x_in.ndim()) : 0;
  const Tensor lines = whole ? reshape(x_in, {x_in.numel()}) : movedim(x_in, dim, -1);
  const DType wide = compute_dtype(x_in.dtype());
  const Tensor x = cast(lines, wide);
  const int last = x.ndim() - 1;
  const int64_t n = line_size("quantile", x, last);
  const Tensor sorted = sort(x, last).values;
  const Tensor nan = has_nan(x, last);
  const DType counting = n > int64_t{1} << 24 ? kF64 : wide;  // f32 has no odd numbers above 2^24
  const Tensor rank =
      mul(cast(reshape(q.detach(), {q.numel()}), counting), static_cast<double>(n - 1));
  const auto at = [&](const Tensor& places) {
    return index_select(sorted, last, cast(places, kI64));
  };
  Tensor y;
  switch (opt.interpolation) {
    case QuantileMode::kLower: y = at(floor(rank)); break;
    case QuantileMode::kHigher: y = at(ceil(rank)); break;
    case QuantileMode::kNearest: y = at(round(rank)); break;
    case QuantileMode::kMidpoint: y = lerp(at(floor(rank)), at(ceil(rank)), 0.5); break;
    case QuantileMode::kLinear: {
      const Tensor low = floor(rank);
      const Tensor share = cast(sub(rank, low), wide);
      y = lerp(at(low), at(ceil(rank)), expand(share, at(low).shape()));
    }
  }
  y = movedim(where(nan, std::numeric_limits<double>::quiet_NaN(), y), -1, 0);  // [Q, others…]
  if (opt.keepdim) {
    Shape shape = x_in.shape();
    for (int d = 0; d < shape.size(); ++d) {
      if (whole || d == dim) shape[d] = 1;
    }
    shape.insert(0, q.numel());
    y = reshape(y, shape);
  }
  return cast(q.ndim() == 0 ? squeeze(y, 0) : y, x_in.dtype());
}

/// cummax and cummin: each pass looks twice as far back. `wins` is true where the later element is
/// at least as extreme.
static ValuesAndIndices running_extreme(const char* op, const Tensor& x, int64_t dim_in,
                                        Tensor (*wins)(const Tensor&, const Tensor&)) {
  const profile::OpRange range(op, {x});
  const int dim = wrap_dim(op, dim_in, x.ndim());
  const int64_t n = x.ndim() == 0 ? 1 : x.shape()[dim];
  Shape line = Dims::filled(x.ndim(), 1);
  if (x.ndim() > 0) line[dim] = n;
  const Tensor numbers = arange(n, {.dtype = kI64, .device = x.device()});
  Tensor places = contiguous(expand(reshape(numbers, line), x.shape()));
  Tensor best = x.detach();
  for (int64_t shift = 1; shift < n; shift *= 2) {
    const auto part = [&](const Tensor& t, bool later) {
      return narrow(t, dim, later ? shift : 0, n - shift);
    };
    const Tensor before = part(best, false), after = part(best, true);
    Tensor later = wins(after, before);
    if (is_floating(x.dtype())) {
      later = logical_or(isnan(after), later);
    }
    const Tensor chosen = where(later, part(places, true), part(places, false));
    best = cat({narrow(best, dim, 0, shift), where(later, after, before)}, dim);
    places = cat({narrow(places, dim, 0, shift), chosen}, dim);
  }
  return {gather(x, dim, places), places};
}

ValuesAndIndices cummax(const Tensor& x, int64_t dim) {
  return running_extreme("cummax", x, dim, ge);
}
ValuesAndIndices cummin(const Tensor& x, int64_t dim) {
  return running_extreme("cummin", x, dim, le);
}

}  // namespace lathe
