// Reductions: checks and gradients. Contracts: reduce.h; kernels: reduce_kernels/.
#include "lathe/ops/reduce.h"

#include <algorithm>
#include <limits>

#include "lathe/autograd/record.h"
#include "lathe/core/dispatch.h"
#include "lathe/core/hooks/range.h"
#include "lathe/core/visit.h"
#include "lathe/ops/autocast.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/floating_check.h"
#include "lathe/ops/strided_adjoint.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"
#include "lathe/ops/where.h"

namespace lathe {

using autograd::Needs;
using autograd::Saved;
using autograd::SavedOutput;

namespace {

/// Which dimensions are reduced, and the shapes that remain.
struct Extent {
  Shape in = {};
  Shape kept = {};  // x's shape with size 1 in the reduced dimensions
  Shape out = {};   // without them, unless keepdim
  Dims dims = {};   // the reduced dimensions
  int64_t count = 1;

  /// A tensor of y's shape with the reduced dimensions put back, so that it broadcasts against x.
  Tensor restore(const Tensor& t) const { return out == kept ? t : reshape(t, kept); }
  /// dy for each element of x.
  Tensor spread(const Tensor& dy) const { return expand(restore(dy), in); }
};

Extent extent_of(const char* op, const Tensor& x, const Dims& dims, bool keepdim) {
  const uint32_t mask = dim_mask(op, dims, x.ndim());
  Extent e{.in = x.shape(), .kept = x.shape()};
  for (int d = 0; d < x.ndim(); ++d) {
    const bool reduced = (mask >> d & 1u) != 0;
    if (reduced) {
      e.kept[d] = 1;
      e.count *= x.shape()[d];
      e.dims.push_back(d);
    }
    if (!reduced || keepdim) e.out.push_back(e.kept[d]);
  }
  return e;
}

/// Act 3.
Tensor run(ReduceOp op, const Tensor& x, const Extent& e, DType dtype, int64_t correction = 0) {
  Tensor y = empty(e.out, {.dtype = dtype, .device = x.device()});
  const Tensor kept = alias(y, e.kept, contiguous_strides(e.kept), 0);
  LATHE_DISPATCH(x.device(), reduce(op, kept, x, correction));
  return y;
}

/// t with 1 in place of 0: for divisors that are 0 only where their dividend is 0 too.
Tensor or_one(const Tensor& t) { return add(t, cast(eq(t, 0), t.dtype())); }
/// dy / (y * count), and 0 where y is 0, whatever dy is.
Tensor or_zero(const Tensor& dy, const Tensor& y, double count) {
  return where(eq(y, 0), 0, div(dy, mul(or_one(y), count)));
}

Tensor sum_in(const Tensor& x, const Extent& e) {
  Tensor y = run(ReduceOp::kSum, x, e, is_floating(x.dtype()) ? x.dtype() : kI64);
  autograd::record("sum", y, {x},
                   [e](const Tensor& dy, const Needs&) { return Tensors{e.spread(dy)}; });
  return y;
}

}  // namespace

Tensor sum(const Tensor& x) { return sum(x, {}); }
Tensor sum(const Tensor& x_in, const Dims& dims, ReduceOptions opt) {
  const profile::OpRange range("sum", {x_in});
  profile::note_arguments(dims, opt);
  const Tensor x = amp::cast(amp::kFloat, x_in);
  return sum_in(x, extent_of("sum", x, dims, opt.keepdim));
}

Tensor sum_to_shape(const Tensor& g, const Shape& shape) {
  if (g.shape() == shape) return g;
  const profile::OpRange range("sum_to_shape", {g});
  const int lead = g.ndim() - shape.size();
  LATHE_CHECK(ShapeError, lead >= 0, "sum_to_shape: ", shape, " has more dimensions than g (g: ", g,
              ")");
  Extent e{.in = g.shape(), .kept = g.shape(), .out = shape};
  for (int d = 0; d < g.ndim(); ++d) {
    const int64_t size = d < lead ? 1 : shape[d - lead];
    LATHE_CHECK(ShapeError, size == 1 || size == g.shape()[d], "sum_to_shape: ", shape,
                " does not broadcast to g's shape (g: ", g, ")");
    e.kept[d] = size;
  }
  return sum_in(g, e);
}

Tensor mean(const Tensor& x) { return mean(x, {}); }
Tensor mean(const Tensor& x, const Dims& dims, ReduceOptions opt) {
  const profile::OpRange range("mean", {x});
  profile::note_arguments(dims, opt);
  check_floating("mean", x);
  const Extent e = extent_of("mean", x, dims, opt.keepdim);
  Tensor y = run(ReduceOp::kMean, x, e, x.dtype());
  autograd::record("mean", y, {x}, [e](const Tensor& dy, const Needs&) {
    return Tensors{e.spread(dy / std::max<int64_t>(e.count, 1))};  // the mean of nothing: no dx
  });
  return y;
}

/// `part` at [start, start + its length) of the last dimension of a tensor [rows, n] that is zero
/// elsewhere.
static Tensor placed(const Tensor& part, int64_t start, int64_t n) {
  const Geometry base = dense_geometry({part.dim(0), n});
  return scatter_strided(part, {part.shape(), base.strides, start}, base);
}

/// For x [rows, n]: at each position the product of the other elements of its row. It takes no
/// division, so zeros do no harm. Pairs are multiplied, the problem is solved for the n/2 products,
/// and each element multiplies its partner in.
static Tensor product_of_others(const Tensor& x) {
  const int64_t n = x.dim(1), half = n / 2, rest = n - 2 * half;
  if (n <= 1) return ones_like(x);
  const Tensor a = narrow(x, 1, 0, half), b = narrow(x, 1, half, half);
  Tensor pairs = mul(a, b);
  if (rest > 0)
    pairs = add(placed(pairs, 0, half + 1), placed(narrow(x, 1, 2 * half, 1), half, half + 1));
  const Tensor others = product_of_others(pairs), of_pairs = narrow(others, 1, 0, half);
  Tensor result = add(placed(mul(of_pairs, b), 0, n), placed(mul(of_pairs, a), half, n));
  if (rest > 0) result = add(result, placed(narrow(others, 1, half, 1), 2 * half, n));
  return result;
}

Tensor prod(const Tensor& x) { return prod(x, {}); }
Tensor prod(const Tensor& x_in, const Dims& dims, ReduceOptions opt) {
  const profile::OpRange range("prod", {x_in});
  profile::note_arguments(dims, opt);
  const Tensor x = amp::cast(amp::kFloat, x_in);
  const Extent e = extent_of("prod", x, dims, opt.keepdim);
  Tensor y = run(ReduceOp::kProd, x, e, is_floating(x.dtype()) ? x.dtype() : kI64);
  autograd::record("prod", y, {x}, [x = Saved(x), e](const Tensor& dy, const Needs&) {
    // x as [kept, reduced]; the permutation back follows.
    Dims order, back = Dims::filled(e.in.size(), 0);
    for (int d = 0; d < e.in.size(); ++d) {
      if (std::find(e.dims.begin(), e.dims.end(), d) == e.dims.end()) order.push_back(d);
    }
    for (const int64_t d : e.dims) order.push_back(d);
    for (int d = 0; d < order.size(); ++d) back[static_cast<int>(order[d])] = d;
    const Tensor moved = permute(x.get(), order);
    const Tensor others = product_of_others(reshape(moved, {numel_of(e.kept), e.count}));
    return Tensors{mul(permute(reshape(others, moved.shape()), back), e.restore(dy))};
  });
  return y;
}

/// amax and amin: equal extremes share the gradient evenly; so do NaNs, which are the extreme if
/// there are any.
static Tensor extreme(const char* name, ReduceOp op, const Tensor& x, const Dims& dims,
                      ReduceOptions opt) {
  const profile::OpRange range(name, {x});
  profile::note_arguments(dims, opt);
  const Extent e = extent_of(name, x, dims, opt.keepdim);
  LATHE_CHECK(ShapeError, e.count > 0, name, ": a reduced dimension has no elements (x: ", x, ")");
  Tensor y = run(op, x, e, x.dtype());
  autograd::record(name, y, {x},
                   [x = Saved(x), y = SavedOutput(y), e](const Tensor& dy, const Needs&) {
                     const DType dtype = dy.dtype();
                     const Tensor values = x.get();  // once: Recompute may compute them
                     Tensor won = eq(values, e.restore(y.get()));
                     if (is_floating(dtype)) won = logical_or(won, isnan(values));
                     const Tensor winners = sum_in(won, extent_of("sum", won, e.dims, true));
                     // Their number may exceed f16's range, so half gradients are divided in f32.
                     const Tensor share = div(e.restore(dy), cast(winners, compute_dtype(dtype)));
                     return Tensors{where(won, cast(share, dtype), 0)};
                   });
  return y;
}

Tensor amax(const Tensor& x, const Dims& dims, ReduceOptions opt) {
  return extreme("amax", ReduceOp::kAmax, x, dims, opt);
}
Tensor amin(const Tensor& x, const Dims& dims, ReduceOptions opt) {
  return extreme("amin", ReduceOp::kAmin, x, dims, opt);
}
Tensor max(const Tensor& x) { return extreme("max", ReduceOp::kAmax, x, {}, {}); }
Tensor min(const Tensor& x) { return extreme("min", ReduceOp::kAmin, x, {}, {}); }

static Tensor truth(const char* name, ReduceOp op, const Tensor& x, const Dims& dims,
                    bool keepdim) {
  const profile::OpRange range(name, {x});
  profile::note_arguments(dims, keepdim);
  Tensor y = run(op, x, extent_of(name, x, dims, keepdim), kBool);
  profile::note_output(y);
  return y;
}

Tensor all(const Tensor& x, const Dims& dims, ReduceOptions opt) {
  return truth("all", ReduceOp::kAll, x, dims, opt.keepdim);
}
Tensor any(const Tensor& x, const Dims& dims, ReduceOptions opt) {
  return truth("any", ReduceOp::kAny, x, dims, opt.keepdim);
}

static int64_t correction_of(const VarOptions& opt) {
  return opt.correction.value_or(opt.unbiased ? 1 : 0);
}

/// n - correction, for the gradients of var and std; 1 where there is nothing to divide.
static double divisor_of(const Extent& e, int64_t correction) {
  if (e.count == 0) return 1;
  return static_cast<double>(std::max<int64_t>(e.count - correction, 0));
}

/// x - mean(x), for the gradients of var and std.
static Tensor centred(const Tensor& x, const Extent& e) {
  return sub(x, mean(x, e.dims, {.keepdim = true}));
}

Tensor var(const Tensor& x, const Dims& dims, VarOptions opt) {
  const profile::OpRange range("var", {x});
  profile::note_arguments(dims, opt);
  check_floating("var", x);
  const Extent e = extent_of("var", x, dims, opt.keepdim);
  const int64_t correction = correction_of(opt);
  Tensor y = run(ReduceOp::kVar, x, e, x.dtype(), correction);
  autograd::record("var", y, {x}, [x = Saved(x), e, correction](const Tensor& dy, const Needs&) {
    const double slope = 2.0 / divisor_of(e, correction);
    return Tensors{mul(centred(x.get(), e), mul(e.restore(dy), slope))};
  });
  return y;
}

Tensor std(const Tensor& x, const Dims& dims, VarOptions opt) {
  const profile::OpRange range("std", {x});
  profile::note_arguments(dims, opt);
  check_floating("std", x);
  const Extent e = extent_of("std", x, dims, opt.keepdim);
  const int64_t correction = correction_of(opt);
  Tensor y = run(ReduceOp::kStd, x, e, x.dtype(), correction);
  autograd::record(
      "std", y, {x},
      [x = Saved(x), y = SavedOutput(y), e, correction](const Tensor& dy, const Needs&) {
        const Tensor scale = or_zero(dy, y.get(), divisor_of(e, correction));
        return Tensors{mul(centred(x.get(), e), e.restore(scale))};
      });
  return y;
}

Tensor norm(const Tensor& x_in, const Dims& dims, ReduceOptions opt) {
  const profile::OpRange range("norm", {x_in});
  profile::note_arguments(dims, opt);
  const Tensor x = amp::cast(amp::kFloat, x_in);
  check_floating("norm", x);
  const Extent e = extent_of("norm", x, dims, opt.keepdim);
  Tensor y = run(ReduceOp::kNorm, x, e, x.dtype());
  autograd::record("norm", y, {x},
                   [x = Saved(x), y = SavedOutput(y), e](const Tensor& dy, const Needs&) {
                     return Tensors{mul(x.get(), e.restore(or_zero(dy, y.get(), 1)))};
                   });
  return y;
}

/// y, with -inf replaced by the dtype's lowest number: then exp(x - y) is 0, not NaN, where a line
/// is all -inf.
static Tensor finite_below(const Tensor& y) {
  const double lowest = visit_float(y.dtype(), "logsumexp", [](auto tag) {
    return static_cast<double>(std::numeric_limits<typename decltype(tag)::type>::lowest());
  });
  return clamp(y, {.low = lowest});
}

Tensor logsumexp(const Tensor& x_in, const Dims& dims, ReduceOptions opt) {
  const profile::OpRange range("logsumexp", {x_in});
  profile::note_arguments(dims, opt);
  const Tensor x = amp::cast(amp::kFloat, x_in);
  check_floating("logsumexp", x);
  const Extent e = extent_of("logsumexp", x, dims, opt.keepdim);
  Tensor y = run(ReduceOp::kLogSumExp, x, e, x.dtype());
  autograd::record("logsumexp", y, {x},
                   [x = Saved(x), y = SavedOutput(y), e](const Tensor& dy, const Needs&) {
                     const Tensor share = exp(sub(x.get(), e.restore(finite_below(y.get()))));
                     return Tensors{cast(mul(share, e.restore(dy)),
                                         dy.dtype())};  // Autocast may have widened the exponential
                   });
  return y;
}

}  // namespace lathe
