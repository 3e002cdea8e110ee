// Cross-entropy: checks and gradient. Contract: cross_entropy.h; kernels:
// row_kernels/cross_entropy_cpu.cpp, cross_entropy_cuda.cu.
#include "lathe/ops/losses/cross_entropy.h"

#include "lathe/autograd/record.h"
#include "lathe/core/dispatch.h"
#include "lathe/core/hooks/range.h"
#include "lathe/ops/autocast.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/losses/saved_targets.h"
#include "lathe/ops/softmax.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"

namespace lathe {

using autograd::Needs;
using autograd::Saved;

namespace {

/// What forward pass and gradient share.
struct Terms {
  ClassTargets targets;
  CrossEntropyRows rows;
  double smoothing;
};

/// The same, for the gradient to keep. The rows are nobody else's.
struct SavedTerms {
  explicit SavedTerms(const Terms& t) : targets(t.targets), rows(t.rows), smoothing(t.smoothing) {}
  Terms get() const { return {targets.get(), rows, smoothing}; }

  SavedTargets targets;
  CrossEntropyRows rows;
  double smoothing;
};

/// d loss_i / d lse_i, where lse is log(sum exp x): the factor of softmax in the gradient. 0 where
/// ignored.
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

/// dx from g, the gradient of each row's loss; an op of its own, so that it has a gradient too.
///   dx = g * (a * softmax(x) - q)
/// q are the smoothed and weighted one-hot targets, a is the sum of q over the classes.
Tensor cross_entropy_grad(const Tensor& x, const Tensor& g, const Terms& terms) {
  Tensor dx = empty(x.shape(), {.dtype = x.dtype(), .device = x.device()});
  LATHE_DISPATCH(x.device(),
                 cross_entropy_backward(dx, contiguous(g.detach()), terms.rows,
                                        contiguous(x.detach()), terms.targets, terms.smoothing));
  autograd::record(
      "cross_entropy_grad", dx, {x, g},
      [x = Saved(x), g = Saved(g), kept = SavedTerms(terms)](const Tensor& v, const Needs& need) {
        const Terms t = kept.get();
        Tensor gx, gg;
        const DType wide = loss_dtype(x.get().dtype());
        if (need[0]) {
          const Tensor p = softmax(cast(x.get(), wide), 1), w = cast(v, wide);
          const Tensor centred = sub(w, sum(mul(w, p), {1}, {.keepdim = true}));
          const Tensor scale = unsqueeze(mul(g.get(), softmax_factor(t)), 1);
          gx = cast(mul(mul(p, centred), scale), x.get().dtype());
        }
        if (need[1]) {
          const Tensor per_row = cross_entropy_grad(x.get(), ones_like(g.get().detach()), t);
          gg = sum(mul(cast(v, wide), cast(per_row, wide)), {1});
        }
        return Tensors{gx, gg};
      });
  return dx;
}

}  // namespace

/// One example without a batch, computed as a batch of one.
static Tensor of_one(const Tensor& x, const Tensor& target, const CrossEntropyOptions& opt) {
  const Tensor loss = cross_entropy(unsqueeze(x, 0), unsqueeze(target, 0), opt);
  return opt.reduction == Reduction::kNone ? squeeze(loss, 0) : loss;
}

/// The loss against probabilities, made of other ops, which bring the gradients.
static Tensor of_probabilities(const Tensor& x_in, const Tensor& target_in,
                               const CrossEntropyOptions& opt) {
  const auto [x, target] = amp::cast(amp::kFloat, x_in, target_in);
  LATHE_CHECK(DTypeError, is_floating(x.dtype()), "cross_entropy: scores must be floating (x: ", x,
              ")");
  LATHE_CHECK(ShapeError, x.ndim() >= 2 && target.shape() == x.shape(),
              "cross_entropy: floating targets are probabilities, of the shape of the scores (x: ",
              x, ", target: ", target, ")");
  LATHE_CHECK(DeviceError, target.device() == x.device(),
              "cross_entropy: scores and targets are on different devices (x: ", x,
              ", target: ", target, ")");
  LATHE_CHECK(ValueError, opt.ignore_index < 0, "cross_entropy: ignore_index ", opt.ignore_index,
              " has no meaning for probabilities (target: ", target, ")");
  const int64_t classes = x.dim(1);
  const DType dtype = promote_types(x.dtype(), target.dtype()), wide = loss_dtype(dtype);
  const double e = opt.label_smoothing, even = e / static_cast<double>(classes);
  Tensor t = cast(target, wide);
  if (e > 0) t = add(mul(t, 1 - e), even);
  const Tensor weight = check_class_weight("cross_entropy", x, opt.weight, classes);
  if (weight.defined()) {
    Shape per_class = Dims::filled(x.ndim() - 1, 1);
    per_class[0] = classes;
    t = mul(t, view(cast(weight, wide), per_class));
  }
  const Tensor losses = neg(sum(mul(log_softmax(cast(x, wide), 1), t), {1}));
  return cast(reduce_losses(losses, opt.reduction), dtype);
}

Tensor cross_entropy(const Tensor& x_in, const Tensor& target, const CrossEntropyOptions& opt) {
  const profile::OpRange range("cross_entropy", {x_in, target});
  profile::note_arguments(opt);
  const bool probabilities = is_floating(target.dtype());
  if (x_in.ndim() == 1 && target.ndim() == (probabilities ? 1 : 0)) {
    return of_one(x_in, target, opt);
  }
  LATHE_CHECK(ValueError, opt.label_smoothing >= 0 && opt.label_smoothing <= 1,
              "cross_entropy: label_smoothing must be in [0, 1], got ", opt.label_smoothing);
  if (probabilities) return of_probabilities(x_in, target, opt);
  const Tensor x = amp::cast(amp::kFloat, x_in);
  Terms t{check_class_targets("cross_entropy", x, target, opt.weight, opt.ignore_index),
          {},
          opt.label_smoothing};
  for (Tensor* part : {&t.rows.loss, &t.rows.weight, &t.rows.largest, &t.rows.log_sum}) {
    *part = empty(target.shape(), {.dtype = loss_dtype(x.dtype()), .device = x.device()});
  }
  LATHE_DISPATCH(x.device(),
                 cross_entropy_forward(t.rows, contiguous(x.detach()), t.targets, t.smoothing));

  const Tensor loss = std::move(t.rows.loss);  // not kept for the gradient
  autograd::record("cross_entropy", loss, {x},
                   [x = Saved(x), kept = SavedTerms(t)](const Tensor& g, const Needs&) {
                     return Tensors{cross_entropy_grad(x.get(), g, kept.get())};
                   });
  if (opt.reduction == Reduction::kNone) return cast(loss, x.dtype());
  const Tensor total = sum(loss);
  return cast(opt.reduction == Reduction::kSum ? total : div(total, sum(t.rows.weight)), x.dtype());
}

}  // namespace lathe
