// Norms and distances, by reductions and elementwise ops; cdist's kernel on the CPU is
// row_kernels/distance_cpu.cpp. Contracts: distance.h.
#include "lathe/ops/distance.h"

#include <cmath>
#include <limits>

#include "lathe/autograd/record.h"
#include "lathe/core/hooks/range.h"
#include "lathe/core/hooks/watch.h"
#include "lathe/core/visit.h"
#include "lathe/ops/autocast.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/floating_check.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"
#include "lathe/ops/where.h"

namespace lathe {

/// x^p of x >= 0, without the infinite or undefined slope at 0.
static Tensor power(const Tensor& x, double p) {
  const Tensor zero = eq(x.detach(), 0);
  const double at_zero = p < 0 ? std::numeric_limits<double>::infinity() : 0.0;
  return where(zero, at_zero, pow(where(zero, 1, x), p));
}

Tensor vector_norm(const Tensor& x_in, double p, const Dims& dims, ReduceOptions opt) {
  const profile::OpRange range("vector_norm", {x_in});
  LATHE_CHECK(ValueError, !std::isnan(p), "vector_norm: p is NaN (x: ", x_in, ")");
  const Tensor x = amp::cast(amp::kFloat, x_in);
  check_floating("vector_norm", x);
  if (p == 2) return norm(x, dims, opt);
  if (p == 1) return sum(abs(x), dims, opt);
  if (p == 0) return sum(where(isnan(x), 1, square(sign(x))), dims, opt);  // NaN is not 0
  if (std::isinf(p)) return p > 0 ? amax(abs(x), dims, opt) : amin(abs(x), dims, opt);
  // Half types are widened once around all steps, as p may take them out of their range.
  const Tensor wide = cast(x, compute_dtype(x.dtype()));
  return cast(power(sum(power(abs(wide), p), dims, opt), 1 / p), x.dtype());
}

Tensor normalize(const Tensor& x_in, const NormalizeOptions& opt) {
  const profile::OpRange range("normalize", {x_in});
  const Tensor x = amp::cast(amp::kFloat, x_in);
  check_floating("normalize", x);
  const Tensor wide = cast(x, compute_dtype(x.dtype()));  // eps would be 0 in f16
  const Tensor length = vector_norm(wide, opt.p, {opt.dim}, {.keepdim = true});
  return cast(div(wide, clamp(length, {.low = opt.eps})), x.dtype());
}

Tensor cosine_similarity(const Tensor& x1_in, const Tensor& x2_in,
                         const CosineSimilarityOptions& opt) {
  const profile::OpRange range("cosine_similarity", {x1_in, x2_in});
  const auto [x1, x2] = amp::cast(amp::kFloat, x1_in, x2_in);
  check_floating("cosine_similarity", x1);
  check_floating("cosine_similarity", x2);
  const Shape shape = broadcast_shapes("cosine_similarity", x1.shape(), x2.shape());
  const Dims dim{wrap_dim("cosine_similarity", opt.dim, shape.size())};
  const DType dtype = promote_types(x1.dtype(), x2.dtype()), wide = compute_dtype(dtype);
  const auto unit = [&](const Tensor& x) {
    const Tensor whole = expand(cast(x, wide), shape);
    return div(whole, clamp(norm(whole, dim, {.keepdim = true}), {.low = opt.eps}));
  };
  return cast(sum(mul(unit(x1), unit(x2)), dim), dtype);
}

Tensor pairwise_distance(const Tensor& x1_in, const Tensor& x2_in,
                         const PairwiseDistanceOptions& opt) {
  const profile::OpRange range("pairwise_distance", {x1_in, x2_in});
  const auto [x1, x2] = amp::cast(amp::kFloat, x1_in, x2_in);
  check_floating("pairwise_distance", x1);
  check_floating("pairwise_distance", x2);
  return vector_norm(add(sub(x1, x2), opt.eps), opt.p, {-1}, {.keepdim = opt.keepdim});
}

/// cdist for p = 2 on the CPU. Its gradient is made of the differences over the distances.
static Tensor euclidean(const Tensor& x1, const Tensor& x2) {
  const auto rows_of = [](const Shape& batch, int64_t rows, int64_t columns) {
    Shape shape = batch;
    shape.push_back(rows);
    shape.push_back(columns);
    return shape;
  };
  const auto batch_of = [](const Tensor& x) {
    Shape batch = x.shape();
    for (int k = 0; k < 2; ++k) batch.erase(batch.size() - 1);
    return batch;
  };
  const Shape batch = broadcast_shapes("cdist", batch_of(x1), batch_of(x2));
  const int64_t p = x1.dim(-2), r = x2.dim(-2), d = x1.dim(-1);
  const Tensor y = empty(rows_of(batch, p, r), {.dtype = x1.dtype()});
  cpu::euclidean_distances(y, contiguous(expand(x1.detach(), rows_of(batch, p, d))),
                           contiguous(expand(x2.detach(), rows_of(batch, r, d))));
  autograd::record("cdist", y, {x1, x2},
                   [x1 = autograd::Saved(x1), x2 = autograd::Saved(x2),
                    y = autograd::SavedOutput(y)](const Tensor& dy, const autograd::Needs& need) {
                     const Tensor &a = x1.get(), &b = x2.get(), &length = y.get();
                     const Tensor equal = eq(length.detach(), 0);
                     const Tensor scale = where(equal, 0, div(dy, where(equal, 1, length)));
                     const Tensor slope =
                         mul(unsqueeze(scale, -1), sub(unsqueeze(a, -2), unsqueeze(b, -3)));
                     Tensor da, db;
                     if (need[0]) da = sum_to_shape(sum(slope, {-2}), a.shape());
                     if (need[1]) db = neg(sum_to_shape(sum(slope, {-3}), b.shape()));
                     return Tensors{da, db};
                   });
  return y;
}

Tensor cdist(const Tensor& x1_in, const Tensor& x2_in, double p) {
  const profile::OpRange range("cdist", {x1_in, x2_in});
  const auto [x1, x2] = amp::cast(amp::kFloat, x1_in, x2_in);
  check_floating("cdist", x1);
  check_floating("cdist", x2);
  LATHE_CHECK(ValueError, p >= 0, "cdist: p must not be negative, got ", p);
  LATHE_CHECK(ShapeError, x1.ndim() >= 2 && x2.ndim() >= 2 && x1.dim(-1) == x2.dim(-1),
              "cdist: x1 and x2 must be […,P,D] and […,R,D] (x1: ", x1, ", x2: ", x2, ")");
  if (p == 2 && x1.device().is_cpu() && x2.device().is_cpu() && !profile::watched()) {
    const DType dtype = promote_types(x1.dtype(), x2.dtype()), wide = compute_dtype(dtype);
    return cast(euclidean(cast(x1, wide), cast(x2, wide)), dtype);
  }
  const Tensor apart = sub(unsqueeze(x1, -2), unsqueeze(x2, -3));
  if (std::isinf(p) && x1.dim(-1) == 0) return sum(apart, {-1});  // no coordinates: 0
  return vector_norm(apart, p, {-1});
}

}  // namespace lathe
