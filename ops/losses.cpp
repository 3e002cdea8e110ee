// Losses made of elementwise ops, which bring their gradients. Contracts: losses.h.
#include "lathe/ops/losses.h"

#include "lathe/ops/autocast.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/where.h"

namespace lathe {

static void check_floating(const char* op, const Tensor& x, const Tensor& y) {
  LATHE_CHECK(DTypeError, is_floating(x.dtype()) && is_floating(y.dtype()), op,
              ": expected floating dtypes (x: ", x, ", y: ", y, ")");
}

Tensor mse_loss(const Tensor& x_in, const Tensor& y_in, const LossOptions& opt) {
  const auto [x, y] = amp::cast(amp::kFloat, x_in, y_in);
  check_floating("mse_loss", x, y);
  return reduce_losses(square(sub(x, y)), opt.reduction);
}

Tensor l1_loss(const Tensor& x_in, const Tensor& y_in, const LossOptions& opt) {
  const auto [x, y] = amp::cast(amp::kFloat, x_in, y_in);
  check_floating("l1_loss", x, y);
  return reduce_losses(abs(sub(x, y)), opt.reduction);
}

Tensor smooth_l1_loss(const Tensor& x_in, const Tensor& y_in, const SmoothL1Options& opt) {
  LATHE_CHECK(ValueError, opt.beta >= 0, "smooth_l1_loss: beta must not be negative, got ",
              opt.beta);
  if (opt.beta == 0) return l1_loss(x_in, y_in, {opt.reduction});
  const auto [x, y] = amp::cast(amp::kFloat, x_in, y_in);
  check_floating("smooth_l1_loss", x, y);
  // Each branch sees 0 where the other one applies, so that neither an infinite difference nor the
  // corner of abs reaches its gradients. NaN takes the branch of the square.
  const Tensor u = sub(x, y), d = abs(u), far = ge(d.detach(), opt.beta);
  const Tensor near = where(far, 0, u);
  const Tensor bent = mul(near, mul(near, 0.5 / opt.beta));
  return reduce_losses(add(bent, where(far, sub(d, 0.5 * opt.beta), 0)), opt.reduction);
}

Tensor bce_with_logits(const Tensor& x_in, const Tensor& y_in, const BceOptions& opt) {
  const auto [x_cast, y_cast] = amp::cast(amp::kFloat, x_in, y_in);
  check_floating("bce_with_logits", x_cast, y_cast);
  LATHE_CHECK(ShapeError, x_cast.shape() == y_cast.shape(),
              "bce_with_logits: x and y must have one shape (x: ", x_cast, ", y: ", y_cast, ")");
  const DType wide = promote_types(x_cast.dtype(), y_cast.dtype());
  const Tensor x = cast(x_cast, wide), y = cast(y_cast, wide);
  // -log s(x) = softplus(-x) and -log(1 - s(x)) = x + softplus(-x). Above the threshold softplus
  // equals its argument to all digits of f64.
  Tensor minus_log = softplus(neg(x), {.threshold = 40.0});
  if (opt.pos_weight.defined()) {
    const Tensor p = cast(opt.pos_weight.detach(), wide);
    LATHE_CHECK(ShapeError, broadcast_shapes("bce_with_logits", p.shape(), x.shape()) == x.shape(),
                "bce_with_logits: pos_weight must broadcast to x's shape (x: ", x,
                ", pos_weight: ", p, ")");
    minus_log = mul(minus_log, add(mul(sub(p, 1), y), 1));
  }
  Tensor loss = add(mul(sub(1, y), x), minus_log);
  if (opt.weight.defined()) loss = mul(loss, opt.weight.detach());
  return reduce_losses(loss, opt.reduction);
}

}  // namespace lathe
