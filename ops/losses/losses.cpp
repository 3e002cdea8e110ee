// Losses made of elementwise ops, which bring their gradients. Contracts: losses.h.
#include "lathe/ops/losses/losses.h"

#include <cmath>
#include <numbers>

#include "lathe/autograd/record.h"
#include "lathe/core/hooks/range.h"
#include "lathe/core/hooks/watch.h"
#include "lathe/core/visit.h"
#include "lathe/ops/argmax.h"
#include "lathe/ops/autocast.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/losses/loss_checks.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/where.h"

namespace lathe {

/// Whether a kernel computes the losses. A watcher is to see the single ops.
static bool one_pass(const Tensor& x) { return x.device().is_cpu() && !profile::watched(); }

/// x and y have one dtype.
static Tensor squared_error(const Tensor& x, const Tensor& y) {
  const Tensor losses = empty_like(x);
  cpu::squared_error(losses, x, y);
  autograd::record("mse_loss", losses, {x, y},
                   [x = autograd::Saved(x), y = autograd::Saved(y)](const Tensor& dl,
                                                                    const autograd::Needs& need) {
                     const Tensor dx = mul(dl, mul(sub(x.get(), y.get()), 2));
                     return Tensors{need[0] ? dx : Tensor(), need[1] ? neg(dx) : Tensor()};
                   });
  return losses;
}

Tensor mse_loss(const Tensor& x_in, const Tensor& y_in, const LossOptions& opt) {
  const profile::OpRange range("mse_loss", {x_in, y_in});
  const auto [x, y] = amp::cast(amp::kFloat, x_in, y_in);
  check_loss_pair("mse_loss", x, y);
  if (one_pass(x)) {
    const DType dtype = promote_types(x.dtype(), y.dtype());
    return reduce_losses(squared_error(cast(x, dtype), cast(y, dtype)), opt.reduction);
  }
  return reduce_losses(square(sub(x, y)), opt.reduction);
}

Tensor l1_loss(const Tensor& x_in, const Tensor& y_in, const LossOptions& opt) {
  const profile::OpRange range("l1_loss", {x_in, y_in});
  const auto [x, y] = amp::cast(amp::kFloat, x_in, y_in);
  check_loss_pair("l1_loss", x, y);
  return reduce_losses(abs(sub(x, y)), opt.reduction);
}

/// The losses of smooth_l1_loss on the CPU, by one pass. x and y have one dtype.
static Tensor smooth_l1_by_kernel(const Tensor& x, const Tensor& y, double beta) {
  const Tensor losses = empty_like(x);
  cpu::smooth_l1(losses, x, y, beta);
  autograd::record("smooth_l1_loss", losses, {x, y},
                   [x = autograd::Saved(x), y = autograd::Saved(y), beta](
                       const Tensor& dl, const autograd::Needs& need) {
                     const Tensor u = sub(x.get(), y.get()), far = ge(abs(u.detach()), beta);
                     const Tensor slope = where(far, sign(u), mul(where(far, 0, u), 1 / beta));
                     const Tensor dx = mul(dl, slope);
                     return Tensors{need[0] ? dx : Tensor(), need[1] ? neg(dx) : Tensor()};
                   });
  return losses;
}

Tensor smooth_l1_loss(const Tensor& x_in, const Tensor& y_in, const SmoothL1Options& opt) {
  const profile::OpRange range("smooth_l1_loss", {x_in, y_in});
  LATHE_CHECK(ValueError, opt.beta >= 0, "smooth_l1_loss: beta must not be negative, got ",
              opt.beta);
  if (opt.beta == 0) return l1_loss(x_in, y_in, {opt.reduction});
  const auto [x, y] = amp::cast(amp::kFloat, x_in, y_in);
  check_loss_pair("smooth_l1_loss", x, y);
  if (one_pass(x)) {
    const DType dtype = promote_types(x.dtype(), y.dtype());
    const Tensor losses = smooth_l1_by_kernel(cast(x, dtype), cast(y, dtype), opt.beta);
    return reduce_losses(losses, opt.reduction);
  }
  // Each branch sees 0 where the other one applies, so that neither an infinite difference nor the
  // corner of abs reaches its gradients. NaN takes the branch of the square.
  const Tensor u = sub(x, y), d = abs(u), far = ge(d.detach(), opt.beta);
  const Tensor near = where(far, 0, u);
  const Tensor bent = mul(near, mul(near, 0.5 / opt.beta));
  return reduce_losses(add(bent, where(far, sub(d, 0.5 * opt.beta), 0)), opt.reduction);
}

Tensor bce_with_logits(const Tensor& x_in, const Tensor& y_in, const BceOptions& opt) {
  const profile::OpRange range("bce_with_logits", {x_in, y_in});
  const auto [x_cast, y_cast] = amp::cast(amp::kFloat, x_in, y_in);
  check_loss_pair("bce_with_logits", x_cast, y_cast);
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

Tensor binary_cross_entropy_with_logits(const Tensor& x, const Tensor& y, const BceOptions& opt) {
  const profile::OpRange range("binary_cross_entropy_with_logits", {x, y});
  check_loss_pair("binary_cross_entropy_with_logits", x, y);
  return bce_with_logits(x, y, opt);
}

Tensor huber_loss(const Tensor& x, const Tensor& y, const HuberOptions& opt) {
  const profile::OpRange range("huber_loss", {x, y});
  LATHE_CHECK(ValueError, opt.delta > 0, "huber_loss: delta must be positive, got ", opt.delta);
  check_loss_pair("huber_loss", x, y);
  return mul(smooth_l1_loss(x, y, {.beta = opt.delta, .reduction = opt.reduction}), opt.delta);
}

/// The losses of binary_cross_entropy. Their gradient is not that of the logarithms, which have no
/// useful one at 0.
static Tensor bce_losses(const Tensor& x, const Tensor& y) {
  const auto log_or_floor = [](const Tensor& logarithm) { return clamp(logarithm, {.low = -100}); };
  const auto losses = [=](const Tensor& p, const Tensor& t) {
    const Tensor chosen = mul(t, log_or_floor(log(p)));
    return neg(add(chosen, mul(sub(1, t), log_or_floor(log1p(neg(p))))));
  };
  const Tensor loss = losses(x.detach(), y.detach());
  autograd::record("binary_cross_entropy", loss, {x, y},
                   [=, x = autograd::Saved(x), y = autograd::Saved(y)](
                       const Tensor& dl, const autograd::Needs& need) {
                     Tensor dx, dy;
                     const Tensor &p = x.get(), &t = y.get();
                     if (need[0]) {
                       const Tensor scale = clamp(mul(p, sub(1, p)), {.low = 1e-12});
                       dx = mul(dl, div(sub(p, t), scale));
                     }
                     if (need[1]) {
                       dy = mul(dl, sub(log_or_floor(log1p(neg(p))), log_or_floor(log(p))));
                     }
                     return Tensors{dx, dy};
                   });
  return loss;
}

Tensor binary_cross_entropy(const Tensor& x_in, const Tensor& y_in,
                            const BinaryCrossEntropyOptions& opt) {
  const profile::OpRange range("binary_cross_entropy", {x_in, y_in});
  const auto [x_cast, y_cast] = amp::cast(amp::kFloat, x_in, y_in);
  check_loss_pair("binary_cross_entropy", x_cast, y_cast);
  const DType dtype = promote_types(x_cast.dtype(), y_cast.dtype());
  // Half types are widened around all steps: 1e-12 is 0 in f16.
  const Tensor x = cast(x_cast, compute_dtype(dtype)), y = cast(y_cast, compute_dtype(dtype));
  if (x.device().is_cpu()) {  // reading the values of a GPU would wait for it
    const Tensor outside = logical_or(lt(x.detach(), 0), gt(x.detach(), 1));
    LATHE_CHECK(ValueError, !any(outside).item<bool>(),
                "binary_cross_entropy: x must be probabilities; element ",
                argmax(outside).item<int64_t>(), " is outside [0, 1] (x: ", x_in, ")");
  }
  Tensor loss = cast(bce_losses(x, y), dtype);
  if (opt.weight.defined()) loss = mul(loss, opt.weight.detach());
  return reduce_losses(loss, opt.reduction);
}

Tensor kl_div(const Tensor& x_in, const Tensor& y_in, const KlDivOptions& opt) {
  const profile::OpRange range("kl_div", {x_in, y_in});
  const auto [x, y] = amp::cast(amp::kFloat, x_in, y_in);
  check_loss_pair("kl_div", x, y);
  Tensor loss;
  if (opt.log_target) {
    loss = mul(exp(y), sub(y, x));
  } else {
    const Tensor zero = eq(y.detach(), 0);  // log is taken of 1 there
    loss = where(zero, 0, mul(y, sub(log(where(zero, 1, y)), x)));
  }
  if (!opt.batch_mean) return reduce_losses(loss, opt.reduction);
  LATHE_CHECK(ShapeError, x.ndim() > 0, "kl_div: a 0-d x is not a batch (x: ", x, ")");
  return div(sum(loss), x.dim(0));
}

Tensor poisson_nll_loss(const Tensor& x_in, const Tensor& y_in, const PoissonNllOptions& opt) {
  const profile::OpRange range("poisson_nll_loss", {x_in, y_in});
  const auto [x, y] = amp::cast(amp::kFloat, x_in, y_in);
  check_loss_pair("poisson_nll_loss", x, y);
  Tensor loss = opt.log_input ? sub(exp(x), mul(y, x)) : sub(x, mul(y, log(add(x, opt.eps))));
  if (opt.full) {
    const Tensor large = gt(y.detach(), 1), t = where(large, y, 1);
    const Tensor root = mul(log(mul(t, 2 * std::numbers::pi)), 0.5);
    loss = add(loss, where(large, add(sub(mul(t, log(t)), t), root), 0));
  }
  return reduce_losses(loss, opt.reduction);
}

Tensor gaussian_nll_loss(const Tensor& x_in, const Tensor& y_in, const Tensor& var_in,
                         const GaussianNllOptions& opt) {
  const profile::OpRange range("gaussian_nll_loss", {x_in, y_in, var_in});
  const auto [x, y, var] = amp::cast(amp::kFloat, x_in, y_in, var_in);
  check_loss_pair("gaussian_nll_loss", x, y);
  check_loss_dtypes("gaussian_nll_loss", x, var);
  Shape per_row = x.shape();
  if (x.ndim() > 0) per_row[x.ndim() - 1] = 1;
  LATHE_CHECK(ShapeError, var.shape() == x.shape() || var.shape() == per_row,
              "gaussian_nll_loss: var must have x's shape, or 1 in place of its last size (x: ", x,
              ", var: ", var, ")");
  LATHE_CHECK(ValueError, opt.eps > 0, "gaussian_nll_loss: eps must be positive, got ", opt.eps);
  const Tensor fixed = var.detach();
  LATHE_CHECK(ValueError, !fixed.device().is_cpu() || !any(lt(fixed, 0)).item<bool>(),
              "gaussian_nll_loss: a variance is negative (var: ", var_in, ")");
  // var, raised to eps, with the gradient of var.
  const Tensor v = add(var, sub(clamp(fixed, {.low = opt.eps}), fixed));
  Tensor loss = mul(add(log(v), div(square(sub(x, y)), v)), 0.5);
  if (opt.full) loss = add(loss, 0.5 * std::log(2 * std::numbers::pi));
  return reduce_losses(loss, opt.reduction);
}

}  // namespace lathe
