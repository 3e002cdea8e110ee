// Losses with a margin, by elementwise ops and distances. Contracts: margin_losses.h.
#include "lathe/ops/losses/margin_losses.h"

#include "lathe/core/hooks/range.h"
#include "lathe/core/visit.h"
#include "lathe/ops/autocast.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/cumsum.h"
#include "lathe/ops/distance.h"
#include "lathe/ops/index.h"
#include "lathe/ops/losses/loss_checks.h"
#include "lathe/ops/losses/losses.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"
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

Tensor soft_margin_loss(const Tensor& x_in, const Tensor& y, const SoftMarginOptions& opt) {
  const profile::OpRange range("soft_margin_loss", {x_in, y});
  const Tensor x = amp::cast(amp::kFloat, x_in);
  check_loss_dtypes("soft_margin_loss", x, x);
  check_loss_shapes("soft_margin_loss", x, y);
  // Above the threshold softplus equals its argument to all digits of f64.
  return reduce_losses(softplus(neg(mul(y.detach(), x)), {.threshold = 40.0}), opt.reduction);
}

/// throws: DTypeError unless y holds integers; DeviceError unless it is on x's device.
static void check_class_tensor(const char* op, const Tensor& x, const Tensor& y) {
  LATHE_CHECK(DTypeError, y.dtype() == kI64 || y.dtype() == kI32, op,
              ": y must be i64 or i32 (y: ", y, ")");
  LATHE_CHECK(DeviceError, y.device() == x.device(), op, ": y is on another device (x: ", x,
              ", y: ", y, ")");
}

/// `weight` in x's dtype; it must be [classes].
static Tensor class_weight(const char* op, const Tensor& weight, const Tensor& x, int64_t classes) {
  LATHE_CHECK(ShapeError, weight.shape() == Shape{classes}, op, ": weight must be [", classes,
              "] (weight: ", weight, ", x: ", x, ")");
  return cast(weight.detach(), x.dtype());
}

Tensor multi_margin_loss(const Tensor& x_in, const Tensor& y, const MultiMarginOptions& opt) {
  const profile::OpRange range("multi_margin_loss", {x_in, y});
  const Tensor x = amp::cast(amp::kFloat, x_in);
  check_loss_dtypes("multi_margin_loss", x, x);
  check_class_tensor("multi_margin_loss", x, y);
  LATHE_CHECK(ValueError, opt.p == 1 || opt.p == 2, "multi_margin_loss: p must be 1 or 2, got ",
              opt.p);
  LATHE_CHECK(ShapeError,
              (x.ndim() == 1 || x.ndim() == 2) && y.ndim() == x.ndim() - 1 &&
                  (y.ndim() == 0 || y.dim(0) == x.dim(0)) && x.dim(-1) > 0,
              "multi_margin_loss: x must be [N,C] and y [N], or [C] and 0-d, with C above 0 (x: ",
              x, ", y: ", y, ")");
  const int64_t classes = x.dim(-1);
  const Tensor at = unsqueeze(cast(y, kI64), -1);
  const Tensor numbers = arange(classes, {.dtype = kI64, .device = x.device()});
  const Tensor others = ne(numbers, at);
  Tensor loss = above_zero(add(sub(x, gather(x, -1, at)), opt.margin));
  if (opt.p == 2) loss = square(loss);
  loss = div(sum(where(others, loss, 0), {-1}), classes);
  if (opt.weight.defined()) {
    const Tensor weight = class_weight("multi_margin_loss", opt.weight, x, classes);
    loss = mul(loss, reshape(index_select(weight, 0, flatten(at)), y.shape()));
  }
  return reduce_losses(loss, opt.reduction);
}

Tensor multilabel_margin_loss(const Tensor& x_in, const Tensor& y,
                              const MultilabelMarginOptions& opt) {
  const profile::OpRange range("multilabel_margin_loss", {x_in, y});
  const Tensor x = amp::cast(amp::kFloat, x_in);
  check_loss_dtypes("multilabel_margin_loss", x, x);
  check_class_tensor("multilabel_margin_loss", x, y);
  LATHE_CHECK(ShapeError, (x.ndim() == 1 || x.ndim() == 2) && x.shape() == y.shape(),
              "multilabel_margin_loss: x and y must be [N,C] or [C], of one shape (x: ", x,
              ", y: ", y, ")");
  const Tensor ended = gt(cumsum(lt(y, 0), -1), 0);
  const Tensor listed = logical_not(ended), at = where(ended, 0, cast(y, kI64));
  const Tensor counts = scatter_add(zeros_like(at), -1, at, cast(listed, kI64));
  const int64_t longest = x.numel() == 0 ? 0 : max(sum(listed, {-1})).item<int64_t>();
  const auto targets = [&](const Tensor& t) { return unsqueeze(narrow(t, -1, 0, longest), -1); };
  // [.., t, c]: target t of the row's list against class c.
  const Tensor pairs = logical_and(targets(listed), unsqueeze(eq(counts, 0), -2));
  const Tensor lead = sub(targets(gather(x, -1, at)), unsqueeze(x, -2));
  const Tensor loss = sum(where(pairs, above_zero(sub(1, lead)), 0), {-2, -1});
  return reduce_losses(div(loss, x.dim(-1)), opt.reduction);
}

Tensor multilabel_soft_margin_loss(const Tensor& x_in, const Tensor& y_in,
                                   const MultilabelSoftMarginOptions& opt) {
  const profile::OpRange range("multilabel_soft_margin_loss", {x_in, y_in});
  const auto [x, y] = amp::cast(amp::kFloat, x_in, y_in);
  check_loss_pair("multilabel_soft_margin_loss", x, y);
  LATHE_CHECK(ShapeError, x.ndim() > 0, "multilabel_soft_margin_loss: x must be […,C] (x: ", x,
              ")");
  Tensor loss = bce_with_logits(x, y, {.reduction = Reduction::kNone});
  if (opt.weight.defined()) {
    loss = mul(loss, class_weight("multilabel_soft_margin_loss", opt.weight, x, x.dim(-1)));
  }
  return reduce_losses(mean(loss, {-1}), opt.reduction);
}

}  // namespace lathe
