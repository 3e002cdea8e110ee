// Losses with a margin, by elementwise ops and distances. Contracts: margin_losses.h.
#include "lathe/ops/losses/margin_losses.h"

#include "lathe/core/hooks/range.h"
#include "lathe/core/visit.h"
#include "lathe/ops/autocast.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/distance.h"
#include "lathe/ops/losses/loss_checks.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/where.h"

namespace lathe {

/// max(x, 0), where only x > 0 gets a gradient: not 0 as clamp, and not NaN as relu.
static Tensor above_zero(const Tensor& x) {
  const Tensor fixed = x.detach();
  return where(gt(fixed, 0), x, relu(fixed));
}

/// x1 x2 / sqrt((|x1|^2 + eps) (|x2|^2 + eps)) of rows, in f32 for half types, where eps is 0.
static Tensor cosine_of_rows(const Tensor& x1_in, const Tensor& x2_in) {
  constexpr double eps = 1e-12;
  const DType dtype = promote_types(x1_in.dtype(), x2_in.dtype());
  const Tensor x1 = cast(x1_in, compute_dtype(dtype)), x2 = cast(x2_in, compute_dtype(dtype));
  const Tensor lengths = mul(add(sum(square(x1), {-1}), eps), add(sum(square(x2), {-1}), eps));
  return cast(div(sum(mul(x1, x2), {-1}), sqrt(lengths)), dtype);
}

Tensor cosine_embedding_loss(const Tensor& x1_in, const Tensor& x2_in, const Tensor& y,
                             const CosineEmbeddingOptions& opt) {
  const profile::OpRange range("cosine_embedding_loss", {x1_in, x2_in, y});
  const auto [x1, x2] = amp::cast(amp::kFloat, x1_in, x2_in);
  check_loss_pair("cosine_embedding_loss", x1, x2);
  LATHE_CHECK(ShapeError,
              (x1.ndim() == 1 || x1.ndim() == 2) && y.ndim() == x1.ndim() - 1 &&
                  (y.ndim() == 0 || y.dim(0) == x1.dim(0)),
              "cosine_embedding_loss: x1 and x2 must be [N,D] and y [N], or [D] and 0-d (x1: ", x1,
              ", x2: ", x2, ", y: ", y, ")");
  const Tensor cosine = cosine_of_rows(x1, x2);
  const Tensor alike = where(eq(y, 1), sub(1, cosine), 0);
  const Tensor apart = where(eq(y, -1), above_zero(sub(cosine, opt.margin)), 0);
  return reduce_losses(add(alike, apart), opt.reduction);
}

Tensor hinge_embedding_loss(const Tensor& x_in, const Tensor& y, const HingeEmbeddingOptions& opt) {
  const profile::OpRange range("hinge_embedding_loss", {x_in, y});
  const Tensor x = amp::cast(amp::kFloat, x_in);
  check_loss_dtypes("hinge_embedding_loss", x, x);
  check_loss_shapes("hinge_embedding_loss", x, y);
  const Tensor near = where(ne(y, -1), x, 0);
  const Tensor far = where(ne(y, 1), above_zero(sub(opt.margin, x)), 0);
  return reduce_losses(add(near, far), opt.reduction);
}

Tensor margin_ranking_loss(const Tensor& x1_in, const Tensor& x2_in, const Tensor& y,
                           const MarginRankingOptions& opt) {
  const profile::OpRange range("margin_ranking_loss", {x1_in, x2_in, y});
  const auto [x1, x2] = amp::cast(amp::kFloat, x1_in, x2_in);
  check_loss_pair("margin_ranking_loss", x1, x2);
  check_loss_shapes("margin_ranking_loss", x1, y);
  const Tensor lead = mul(y.detach(), sub(x1, x2));
  return reduce_losses(above_zero(sub(opt.margin, lead)), opt.reduction);
}

Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           const TripletMarginOptions& opt) {
  const profile::OpRange range("triplet_margin_loss", {anchor, positive, negative});
  check_loss_pair("triplet_margin_loss", anchor, positive);
  check_loss_pair("triplet_margin_loss", anchor, negative);
  const PairwiseDistanceOptions by{.p = opt.p, .eps = opt.eps};
  Tensor apart = pairwise_distance(anchor, negative, by);
  if (opt.swap) apart = minimum(apart, pairwise_distance(positive, negative, by));
  const Tensor loss =
      above_zero(add(sub(pairwise_distance(anchor, positive, by), apart), opt.margin));
  return reduce_losses(loss, opt.reduction);
}

}  // namespace lathe
