// Totals of scores and labels: checks. Contract: tally_scores.h; kernels:
// row_kernels/tally_scores_cpu.cpp, tally_scores_cuda.cu.
#include "lathe/ops/tally_scores.h"

#include "lathe/autograd/grad_mode.h"
#include "lathe/core/dispatch.h"
#include "lathe/core/hooks/range.h"
#include "lathe/core/visit.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/creation.h"

namespace lathe {

ScoreTally make_score_tally(Device device, int64_t classes) {
  LATHE_CHECK(ValueError, classes >= 0, "make_score_tally: classes must not be negative, got ",
              classes);
  const auto zero = [device](const Shape& shape, DType dtype) {
    return zeros(shape, {.dtype = dtype, .device = device});
  };
  return {zero({}, kF64), zero({3}, kI64), classes > 0 ? zero({classes, classes}, kI64) : Tensor()};
}

void tally_scores_(const ScoreTally& tally, const Tensor& scores, const Tensor& labels,
                   const Tensor& mean_loss) {
  constexpr const char* kOp = "tally_scores_";
  const profile::OpRange range(kOp, {scores, labels, mean_loss});
  LATHE_CHECK(ShapeError, scores.ndim() == 2 && scores.dim(1) > 0, kOp,
              ": scores must be [N,C] with C >= 1 (scores: ", scores, ")");
  LATHE_CHECK(ShapeError, labels.ndim() == 1 && labels.dim(0) == scores.dim(0), kOp,
              ": labels must be [", scores.dim(0), "] (labels: ", labels, ", scores: ", scores,
              ")");
  LATHE_CHECK(ShapeError, mean_loss.ndim() == 0, kOp,
              ": mean_loss must be 0-d (mean_loss: ", mean_loss, ")");
  LATHE_CHECK(DTypeError, is_floating(scores.dtype()), kOp,
              ": scores must be floating (scores: ", scores, ")");
  LATHE_CHECK(DTypeError, is_integer(labels.dtype()), kOp,
              ": labels must be integers (labels: ", labels, ")");
  LATHE_CHECK(DTypeError, mean_loss.dtype() == compute_dtype(scores.dtype()), kOp,
              ": mean_loss must be ", compute_dtype(scores.dtype()),
              " for these scores (mean_loss: ", mean_loss, ", scores: ", scores, ")");
  for (const Tensor* t : {&labels, &mean_loss, &tally.loss_sum, &tally.counts}) {
    LATHE_CHECK(DeviceError, t->device() == scores.device(), kOp, ": ", *t,
                " is on another device (scores: ", scores, ")");
  }
  if (tally.confusion.defined()) {
    LATHE_CHECK(ShapeError, tally.confusion.dim(0) == scores.dim(1), kOp, ": the tally counts ",
                tally.confusion.dim(0), " classes (scores: ", scores, ")");
  }
  const NoGrad off;
  LATHE_DISPATCH(scores.device(), tally_scores_(tally, scores.contiguous(),
                                                cast(labels, kI64).contiguous(), mean_loss));
}

}  // namespace lathe
