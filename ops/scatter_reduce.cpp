// scatter_reduce: checks and gradients. scatter_add makes sums and means. The CPU has a loop for
// products and extremes. On a GPU, sort() brings the values of a position together, and passes over
// them combine each value with its predecessors of the same position.
// Contract: scatter_reduce.h.
#include "lathe/ops/scatter_reduce.h"

#include <limits>

#include "lathe/autograd/record.h"
#include "lathe/core/hooks/range.h"
#include "lathe/core/visit.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/index.h"
#include "lathe/ops/join.h"
#include "lathe/ops/rearrange.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/scatter.h"
#include "lathe/ops/sort.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"
#include "lathe/ops/where.h"

namespace lathe {

namespace {

constexpr const char* kScatterReduce = "scatter_reduce";

/// The op after its checks: operands with a dimension at least, of the dtype of the computation.
struct ScatterCall {
  Tensor x, source, index;  // source has index's shape; index is i64
  int dim;
  ScatterReduction reduction;
  bool include_self;
};

void check_scattered(const Tensor& x, const Tensor& index, const Tensor& source) {
  LATHE_CHECK(DTypeError, index.dtype() == kI64 || index.dtype() == kI32, kScatterReduce,
              ": index must be i64 or i32 (index: ", index, ")");
  LATHE_CHECK(DTypeError, x.dtype() != kBool, kScatterReduce, ": not defined for bool (x: ", x,
              ")");
  LATHE_CHECK(DTypeError, source.dtype() == x.dtype(), kScatterReduce,
              ": source must have x's dtype (x: ", x, ", source: ", source, ")");
  LATHE_CHECK(DeviceError, index.device() == x.device() && source.device() == x.device(),
              kScatterReduce, ": the tensors are on several devices (x: ", x, ", index: ", index,
              ", source: ", source, ")");
}

/// The dtype in which values are combined.
DType wide_dtype(DType dtype, ScatterReduction reduction) {
  const bool counts = reduction == ScatterReduction::kMean && !is_floating(dtype);
  return counts ? kI64 : compute_dtype(dtype);
}

ScatterCall checked_call(const Tensor& x_in, int64_t dim_in, const Tensor& index_in,
                         const Tensor& source_in, ScatterReduction reduction, bool include_self) {
  check_scattered(x_in, index_in, source_in);
  const auto at_least_1d = [](const Tensor& t) { return t.ndim() == 0 ? reshape(t, {1}) : t; };
  const Tensor x = at_least_1d(x_in), index = at_least_1d(index_in);
  Tensor source = at_least_1d(source_in);
  const int dim = wrap_dim(kScatterReduce, dim_in, x.ndim());
  bool fits = index.ndim() == x.ndim(), covers = source.ndim() == index.ndim();
  for (int d = 0; fits && d < x.ndim(); ++d) {
    fits = d == dim || index.shape()[d] <= x.shape()[d];
  }
  LATHE_CHECK(ShapeError, fits, kScatterReduce,
              ": index must have x's number of dimensions and be no longer in any but ", dim,
              " (x: ", x_in, ", index: ", index_in, ")");
  for (int d = 0; covers && d < index.ndim(); ++d) {
    covers = source.shape()[d] >= index.shape()[d];
  }
  LATHE_CHECK(ShapeError, covers, kScatterReduce,
              ": source is smaller than index (index: ", index_in, ", source: ", source_in, ")");
  for (int d = 0; d < index.ndim(); ++d) {
    if (source.shape()[d] > index.shape()[d]) source = narrow(source, d, 0, index.shape()[d]);
  }
  const Tensor places = cast(index, kI64);
  check_index(kScatterReduce, places, x.shape()[dim]);
  const DType wide = wide_dtype(x.dtype(), reduction);
  return {cast(x, wide), cast(source, wide), places, dim, reduction, include_self};
}

/// Bool of x's shape: the positions to which source has something.
Tensor written_places(const ScatterCall& c) {
  const Tensor nothing = zeros(c.x.shape(), {.dtype = kBool, .device = c.x.device()});
  return scatter(nothing, c.dim, c.index, true);
}

/// How many values of source go to each position.
Tensor source_counts(const ScatterCall& c) {
  const TensorOptions integers{.dtype = kI64, .device = c.x.device()};
  return scatter_add(zeros(c.x.shape(), integers), c.dim, c.index, ones(c.index.shape(), integers));
}

Tensor sum_or_mean(const ScatterCall& c) {
  const Tensor x = c.include_self ? c.x : masked_fill(c.x, written_places(c), 0);
  const Tensor sums = scatter_add(x, c.dim, c.index, c.source);
  if (c.reduction == ScatterReduction::kSum) return sums;
  const Tensor count =
      c.include_self ? add(source_counts(c), 1) : clamp(source_counts(c), {.low = 1});
  if (is_floating(sums.dtype())) return div(sums, cast(count, sums.dtype()));
  return div(sums, count, {.rounding_mode = RoundingMode::kFloor});
}

Tensor combine_two(ScatterReduction reduction, const Tensor& a, const Tensor& b) {
  if (reduction == ScatterReduction::kProd) return mul(a, b);
  return reduction == ScatterReduction::kAmax ? maximum(a, b) : minimum(a, b);
}

/// Where each element of index points in a dense x, counted in elements.
Tensor places_in_x(const ScatterCall& c) {
  const Strides strides = contiguous_strides(c.x.shape());
  Tensor places = mul(c.index, strides[c.dim]);
  for (int d = 0; d < c.x.ndim(); ++d) {
    if (d == c.dim) continue;
    Shape line = Dims::filled(c.x.ndim(), 1);
    line[d] = c.index.shape()[d];
    const Tensor steps = arange(line[d], {.dtype = kI64, .device = c.x.device()});
    places = add(places, reshape(mul(steps, strides[d]), line));
  }
  return reshape(places, {places.numel()});
}

/// The number that changes no other one in a product or as a candidate for the extreme.
Scalar neutral_number(ScatterReduction reduction, DType dtype) {
  if (reduction == ScatterReduction::kProd) return 1;
  const bool largest = reduction == ScatterReduction::kAmax;
  constexpr double kInf = std::numeric_limits<double>::infinity();
  if (is_floating(dtype)) return largest ? -kInf : kInf;
  return visit_integer(dtype, kScatterReduce, [&](auto tag) -> Scalar {
    using Limits = std::numeric_limits<typename decltype(tag)::type>;
    return static_cast<int64_t>(largest ? Limits::lowest() : Limits::max());
  });
}

/// Combines each value with its predecessors of the same key, in passes. After the pass of `shift`,
/// each value stands for itself and its 2 * shift - 1 predecessors, as far as they have its key.
/// Another key's value is replaced before it is combined, so an infinity does not meet a 0 of the
/// gradient.
///   keys  i64 [K], equal ones are neighbours     values  [K]
Tensor running(ScatterReduction reduction, const Tensor& keys, Tensor values) {
  const int64_t n = keys.numel();
  const Scalar neutral = neutral_number(reduction, values.dtype());
  for (int64_t shift = 1; shift < n; shift *= 2) {
    const auto ends = [&](const Tensor& t) { return narrow(t, 0, shift, n - shift); };
    const auto begins = [&](const Tensor& t) { return narrow(t, 0, 0, n - shift); };
    const Tensor before = where(eq(ends(keys), begins(keys)), begins(values), neutral);
    values = cat({narrow(values, 0, 0, shift), combine_two(reduction, ends(values), before)});
  }
  return values;
}

/// The values of source, sorted by their position in x; those of one position keep their order.
struct SortedSource {
  Tensor keys, order;  // i64 [K]: positions in x, and in source
  Tensor values;       // [K]
};

SortedSource sorted_source(const ScatterCall& c) {
  const auto [keys, order] = sort(places_in_x(c));
  return {keys, order, index_select(reshape(c.source, {c.source.numel()}), 0, order)};
}

/// Products and extremes by passes, with no gradient recorded. The last value of a position stands
/// for all of them, and is the one that put() leaves.
Tensor by_passes(const ScatterCall& c) {
  const Tensor x = reshape(c.x.detach(), {c.x.numel()});
  const SortedSource s = sorted_source(c);
  const bool times = c.reduction == ScatterReduction::kProd;
  const Tensor base = c.include_self && times ? ones_like(x) : x;
  const Tensor totals = put(base, s.keys, running(c.reduction, s.keys, s.values.detach()));
  return reshape(c.include_self ? combine_two(c.reduction, x, totals) : totals, c.x.shape());
}

/// Products and extremes on the CPU, with no gradient recorded.
Tensor by_loop(const ScatterCall& c) {
  const Tensor x = c.x.detach();
  const Tensor begin =
      c.include_self ? x
                     : masked_fill(x, written_places(c), neutral_number(c.reduction, x.dtype()));
  const Tensor dense = contiguous(begin), y = dense.shares_storage(c.x) ? clone(dense) : dense;
  cpu::scatter_reduce(c.reduction, y, c.source.detach(), c.dim, c.index);
  return y;
}

/// Equal numbers, or two NaNs.
Tensor equal_or_nan(const Tensor& a, const Tensor& b) {
  const Tensor equals = eq(a, b);
  return is_floating(a.dtype()) ? logical_or(equals, logical_and(isnan(a), isnan(b))) : equals;
}

/// The elements of x and source that are y's extremes share dy.
Tensors extreme_grad(const Tensor& dy, const ScatterCall& c, const Tensor& y) {
  Tensor ours = equal_or_nan(c.x, y);
  if (!c.include_self) ours = logical_and(ours, logical_not(written_places(c)));
  const Tensor theirs = equal_or_nan(c.source, gather(y, c.dim, c.index));
  const DType dtype = dy.dtype();
  const Tensor winners = scatter_add(cast(ours, dtype), c.dim, c.index, cast(theirs, dtype));
  const Tensor share = div(dy, winners);
  return {where(ours, share, 0), where(theirs, gather(share, c.dim, c.index), 0)};
}

/// dy times the product of all other factors of the position. It divides by nothing, so zeros do no
/// harm.
Tensors product_grad(const Tensor& dy, const ScatterCall& c) {
  constexpr ScatterReduction kTimes = ScatterReduction::kProd;
  const SortedSource s = sorted_source(c);
  const int64_t n = s.keys.numel();
  const Tensor flat = reshape(dy, {dy.numel()}), x = reshape(c.x, {c.x.numel()});
  // Each value's predecessors: the values moved by one, with a 1 where a position begins.
  const auto predecessors = [&](const Tensor& keys, const Tensor& values) {
    const Tensor same = eq(narrow(keys, 0, 1, n - 1), narrow(keys, 0, 0, n - 1));
    const Tensor moved = where(same, narrow(values, 0, 0, n - 1), 1);
    return running(kTimes, keys, cat({ones({1}, values.options()), moved}));
  };
  const Tensor before = predecessors(s.keys, s.values);
  const Tensor after = flip(predecessors(flip(s.keys, {0}), flip(s.values, {0})), {0});
  Tensor others = mul(before, after);
  if (c.include_self) others = mul(others, index_select(x, 0, s.keys));
  const Tensor d_values = mul(index_select(flat, 0, s.keys), others);
  const Tensor d_source = put(zeros({n}, dy.options()), s.order, d_values);
  const Tensor totals =
      c.include_self ? put(ones_like(x.detach()), s.keys, mul(before, s.values)) : Tensor();
  const Tensor dx = c.include_self ? mul(dy, reshape(totals, c.x.shape()))
                                   : masked_fill(dy, written_places(c), 0);
  return {dx, reshape(d_source, c.source.shape())};
}

Tensor product_or_extreme(const ScatterCall& c) {
  const Tensor y = c.x.device().is_cpu() ? by_loop(c) : by_passes(c);
  autograd::record(kScatterReduce, y, {c.x, c.source},
                   [x = autograd::Saved(c.x), source = autograd::Saved(c.source),
                    index = autograd::Saved(c.index), y = autograd::SavedOutput(y), dim = c.dim,
                    reduction = c.reduction,
                    include_self = c.include_self](const Tensor& dy, const autograd::Needs&) {
                     const ScatterCall call{x.get(), source.get(), index.get(),
                                            dim,     reduction,    include_self};
                     return reduction == ScatterReduction::kProd ? product_grad(dy, call)
                                                                 : extreme_grad(dy, call, y.get());
                   });
  return y;
}

/// With an empty index: x, and a gradient of zeros for source.
Tensor nothing_scattered(const Tensor& x, const Tensor& source) {
  const Tensor y = clone(x.detach());
  autograd::record(kScatterReduce, y, {x, source},
                   [shape = source.shape(), options = source.options()](const Tensor& dy,
                                                                        const autograd::Needs&) {
                     return Tensors{dy, zeros(shape, options)};
                   });
  return y;
}

}  // namespace

Tensor scatter_reduce(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source,
                      ScatterReduction reduction, const ScatterReduceOptions& options) {
  const profile::OpRange range(kScatterReduce, {x, index, source});
  const ScatterCall c = checked_call(x, dim, index, source, reduction, options.include_self);
  if (c.x.numel() == 0 || c.index.numel() == 0) return nothing_scattered(x, source);
  const bool sums = reduction == ScatterReduction::kSum || reduction == ScatterReduction::kMean;
  const Tensor y = sums ? sum_or_mean(c) : product_or_extreme(c);
  return reshape(cast(y, x.dtype()), x.shape());
}

}  // namespace lathe
