// Batch normalisation whose statistics are those of several processes. It is made of ops, so its
// gradients are theirs: the gradient of a sum over ranks is the sum of the ranks' gradients.
#include "lathe/autograd/grad_mode.h"
#include "lathe/core/visit.h"
#include "lathe/nn/batch_norm.h"
#include "lathe/ops/batch_norm.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/inplace.h"
#include "lathe/ops/join.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"

namespace lathe::nn {

namespace {

/// The sums of x over all dimensions but the channels: [C].
Tensor channel_sums(const Tensor& x) {
  Dims others;
  for (int d = 0; d < x.ndim(); ++d) {
    if (d != 1) others.push_back(d);
  }
  return sum(x, others);
}

/// [C] as it broadcasts to x.
Tensor spread(const Tensor& t, const Tensor& x) {
  Shape shape = Dims::filled(x.ndim(), 1);
  shape[1] = x.dim(1);
  return reshape(t, shape);
}

}  // namespace

// Two sums over ranks: of the values, with how many there are, and then of the squared deviations
// from their mean. Rounding is that of one process with the whole batch.
Tensor BatchNorm::synced(const Tensor& x_in, const lathe::BatchNormOptions& how) {
  const DType dtype = compute_dtype(x_in.dtype());
  const Tensor x = cast(x_in, dtype);
  const int64_t channels = x.dim(1);
  const double own = static_cast<double>(x.numel()) / static_cast<double>(channels);
  const Tensor own_count = full({1}, own, {.dtype = dtype, .device = x.device()});
  const Tensor totals = sum_(cat({channel_sums(x), own_count}, 0));
  const auto count = totals.select(0, channels).item<double>();
  LATHE_CHECK(ShapeError, count > 1,
              "BatchNorm: training needs more than one value per channel, and all ranks together "
              "have ",
              count, " (x: ", x, ")");
  const Tensor mean = totals.slice(0, 0, channels) / count;
  const Tensor t = x - spread(mean, x);
  const Tensor var = sum_(channel_sums(square(t))) / count;
  Tensor scale = rsqrt(var + how.eps);
  if (weight.defined()) scale = scale * weight;
  Tensor y = t * spread(scale, x);
  if (bias.defined()) y = y + spread(bias, x);
  move_running(mean, var, count, how);
  return cast(y, x_in.dtype());
}

void BatchNorm::move_running(const Tensor& mean, const Tensor& var, double count,
                             const lathe::BatchNormOptions& how) {
  if (!running_mean.defined()) return;
  const NoGrad off;
  running_mean.mul_(1 - how.momentum);
  running_mean.add_(mean * how.momentum);
  running_var.mul_(1 - how.momentum);
  running_var.add_(var * (how.momentum * count / (count - 1)));
  if (how.num_batches.defined()) how.num_batches.add_(1);
}

}  // namespace lathe::nn
