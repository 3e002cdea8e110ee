// Cross-entropy: checks and gradient; see cross_entropy.h. CPU kernels: cross_entropy_cpu.cpp.
#include "lathe/ops/cross_entropy.h"

#include "lathe/autograd/record.h"
#include "lathe/core/dispatch.h"
#include "lathe/ops/autocast.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/softmax.h"
#include "lathe/ops/views.h"

namespace lathe {

using autograd::Needs;
using autograd::Saved;

namespace {

/// What forward and gradient share.
struct Terms {
  ClassTargets targets;
  CrossEntropyRows rows;
  double smoothing;
};

/// d loss_i / d lse_i: the factor of softmax in the gradient. 0 where ignored.
Tensor softmax_factor(const Terms& t) {
  const ClassTargets& targets = t.targets;
  const Tensor counted = cast(ne(targets.index, targets.ignore_index), t.rows.weight.dtype());
  const Tensor all_weights = targets.weight.defined()
                                 ? sum(targets.weight)
                                 : full({}, static_cast<double>(targets.classes),
                                        {.dtype = counted.dtype(), .device = counted.device()});
  const double spread = t.smoothing / static_cast<double>(targets.classes);
  return add(mul(t.rows.weight, 1.0 - t.smoothing), mul(counted, mul(all_weights, spread)));
}

/// dx from g, the gradient of each row's loss: an op of its own, so that it has a gradient too.
///   dx = g * (a * softmax(x) - q),  q the smoothed and weighted one-hot targets, a = sum of q over
///   the classes
Tensor cross_entropy_grad(const Tensor& x, const Tensor& g, const Terms& t) {
  Tensor dx = empty(x.shape(), {.dtype = x.dtype(), .device = x.device()});
  LATHE_DISPATCH(x.device(),
                 cross_entropy_backward(dx, contiguous(g.detach()), t.rows, contiguous(x.detach()),
                                        t.targets, t.smoothing));
  autograd::record("cross_entropy_grad", dx, {x, g},
                   [x = Saved(x), g = Saved(g), t](const Tensor& v, const Needs& need) {
                     Tensor gx, gg;
                     const DType wide = loss_dtype(x.get().dtype());
                     if (need[0]) {
                       const Tensor p = softmax(cast(x.get(), wide), 1), w = cast(v, wide);
                       const Tensor centred = sub(w, sum(mul(w, p), {1}, {.keepdim = true}));
                       const Tensor scale = unsqueeze(mul(g.get(), softmax_factor(t)), 1);
                       gx = cast(mul(mul(p, centred), scale), x.get().dtype());
                     }
                     if (need[1]) {
                       const Tensor per_row =
                           cross_entropy_grad(x.get(), ones_like(g.get().detach()), t);
                       gg = sum(mul(cast(v, wide), cast(per_row, wide)), {1});
                     }
                     return Tensors{gx, gg};
                   });
  return dx;
}

}  // namespace

/// One example without a batch as a batch of it.
static Tensor of_one(const Tensor& x, const Tensor& target, const CrossEntropyOptions& opt) {
  const Tensor loss = cross_entropy(unsqueeze(x, 0), unsqueeze(target, 0), opt);
  return opt.reduction == Reduction::kNone ? squeeze(loss, 0) : loss;
}

Tensor cross_entropy(const Tensor& x_in, const Tensor& target, const CrossEntropyOptions& opt) {
  if (x_in.ndim() == 1 && target.ndim() == 0) return of_one(x_in, target, opt);
  const Tensor x = amp::cast(amp::kFloat, x_in);
  LATHE_CHECK(ValueError, opt.label_smoothing >= 0 && opt.label_smoothing <= 1,
              "cross_entropy: label_smoothing must be in [0, 1], got ", opt.label_smoothing);
  Terms t{check_class_targets("cross_entropy", x, target, opt.weight, opt.ignore_index),
          {},
          opt.label_smoothing};
  for (Tensor* part : {&t.rows.loss, &t.rows.weight, &t.rows.largest, &t.rows.log_sum}) {
    *part = empty(target.shape(), {.dtype = loss_dtype(x.dtype()), .device = x.device()});
  }
  LATHE_DISPATCH(x.device(),
                 cross_entropy_forward(t.rows, contiguous(x.detach()), t.targets, t.smoothing));

  const Tensor loss = std::move(t.rows.loss);  // not kept for the gradient
  autograd::record("cross_entropy", loss, {x}, [x = Saved(x), t](const Tensor& g, const Needs&) {
    return Tensors{cross_entropy_grad(x.get(), g, t)};
  });
  if (opt.reduction == Reduction::kNone) return cast(loss, x.dtype());
  const Tensor total = sum(loss);
  return cast(opt.reduction == Reduction::kSum ? total : div(total, sum(t.rows.weight)), x.dtype());
}

}  // namespace lathe
