// Negative log-likelihood: checks and gradient. Contract: nll_loss.h; kernels:
// row_kernels/nll_loss_cpu.cpp, nll_loss_cuda.cu.
#include "lathe/ops/losses/nll_loss.h"

#include "lathe/autograd/record.h"
#include "lathe/core/dispatch.h"
#include "lathe/core/hooks/range.h"
#include "lathe/ops/autocast.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/losses/saved_targets.h"
#include "lathe/ops/views.h"

namespace lathe {

using autograd::Needs;

namespace {

struct Rows {
  Tensor loss, weight;
};

Tensor nll_grad(const Tensor& g, const Shape& shape, DType dtype, const ClassTargets& targets);

/// The losses are linear in logp: their gradient is the transposed map, whose gradient is this map
/// again.
Rows nll_rows(const Tensor& logp, const ClassTargets& targets) {
  Shape shape = logp.shape();
  shape.erase(1);
  const TensorOptions options{.dtype = loss_dtype(logp.dtype()), .device = logp.device()};
  Rows rows{empty(shape, options), empty(shape, options)};
  LATHE_DISPATCH(logp.device(),
                 nll_loss_forward(rows.loss, rows.weight, contiguous(logp.detach()), targets));
  autograd::record("nll_loss", rows.loss, {logp},
                   [shape = logp.shape(), dtype = logp.dtype(), kept = SavedTargets(targets)](
                       const Tensor& g, const Needs&) {
                     return Tensors{nll_grad(g, shape, dtype, kept.get())};
                   });
  return rows;
}

Tensor nll_grad(const Tensor& g, const Shape& shape, DType dtype, const ClassTargets& targets) {
  Tensor dlogp = empty(shape, {.dtype = dtype, .device = g.device()});
  LATHE_DISPATCH(g.device(), nll_loss_backward(dlogp, contiguous(g.detach()), targets));
  autograd::record("nll_loss_grad", dlogp, {g},
                   [kept = SavedTargets(targets)](const Tensor& v, const Needs&) {
                     return Tensors{nll_rows(v, kept.get()).loss};
                   });
  return dlogp;
}

}  // namespace

Tensor nll_loss(const Tensor& logp_in, const Tensor& target, const NllLossOptions& opt) {
  const profile::OpRange range("nll_loss", {logp_in, target});
  profile::note_arguments(opt);
  if (logp_in.ndim() == 1 && target.ndim() == 0) {
    const Tensor loss = nll_loss(unsqueeze(logp_in, 0), unsqueeze(target, 0), opt);
    return opt.reduction == Reduction::kNone ? squeeze(loss, 0) : loss;
  }
  const Tensor logp = amp::cast(amp::kFloat, logp_in);
  const ClassTargets targets =
      check_class_targets("nll_loss", logp, target, opt.weight, opt.ignore_index);
  const Rows rows = nll_rows(logp, targets);
  if (opt.reduction == Reduction::kNone) return cast(rows.loss, logp.dtype());
  const Tensor total = sum(rows.loss);
  return cast(opt.reduction == Reduction::kSum ? total : div(total, sum(rows.weight)),
              logp.dtype());
}

}  // namespace lathe
