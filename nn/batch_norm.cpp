// Batch normalisation layers: buffers, the choice between batch and running statistics, checks.
#include "lathe/nn/batch_norm.h"

#include "lathe/ops/batch_norm.h"
#include "lathe/ops/batch_norm_conv2d.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/unary.h"

namespace lathe::nn {

BatchNorm::BatchNorm(int64_t channels, const BatchNormOptions& options) : options_(options) {
  LATHE_CHECK(ValueError, channels > 0, "BatchNorm: channels must be positive, got ", channels);
  LATHE_CHECK(ValueError, options.eps >= 0, "BatchNorm: eps must not be negative, got ",
              options.eps);
  const TensorOptions as{.dtype = is_half(default_dtype()) ? kF32 : default_dtype()};
  if (options.affine) {
    weight = parameter("weight", ones({channels}, as));
    bias = parameter("bias", zeros({channels}, as));
  }
  if (options.track_running_stats) {
    running_mean = buffer("running_mean", zeros({channels}, as));
    running_var = buffer("running_var", ones({channels}, as));
    num_batches_tracked = buffer("num_batches_tracked", zeros({}, {.dtype = kI64}));
  }
}

template <class Op>
Tensor BatchNorm::normalize(const Tensor& x, Op&& op) {
  check_input(x);
  lathe::BatchNormOptions how{.training = is_training(), .eps = options_.eps};
  const bool counting = is_training() && num_batches_tracked.defined();
  if (options_.momentum.has_value()) {
    how.momentum = *options_.momentum;
  } else if (counting) {  // the running statistics are the mean over all batches (this waits for
                          // the device)
    how.momentum = 1 / (num_batches_tracked.item<double>() + 1);
  }
  if (counting) how.num_batches = num_batches_tracked;
  return op(how);
}

Tensor BatchNorm::forward(const Tensor& x) {
  return normalize(x, [&](const lathe::BatchNormOptions& how) {
    if (is_synced()) return synced(x, how);
    return batch_norm(x, weight, bias, running_mean, running_var, how);
  });
}

Tensor BatchNorm::relu_now(const Tensor& x) {
  return with_hooks(x, [&](const Tensor& in) {
    return normalize(in, [&](const lathe::BatchNormOptions& how) {
      if (is_synced()) return lathe::relu(synced(in, how));
      return batch_norm_relu(in, weight, bias, running_mean, running_var, how);
    });
  });
}

NormRelu BatchNorm::relu(const Tensor& x) {
  // What the fused op takes; it looks at the rest itself.
  const bool may_wait = is_training() && x.defined() && x.device().is_cuda() && x.dtype() == kF16 &&
                        x.ndim() == 4 && !has_hooks() && !sum_ && options_.momentum &&
                        weight.defined() && running_mean.defined();
  return {*this, x, may_wait ? Tensor() : relu_now(x)};
}

NormRelu::operator Tensor() const {
  if (!value_.defined()) value_ = norm_->relu_now(input());
  return value_;
}

const Tensor& NormRelu::input() const {
  LATHE_CHECK(StateError, x_.version() == version_, "BatchNorm::relu: x was modified by an ",
              "in-place operation before its values were computed (x: ", x_, ")");
  return x_;
}

Tensor BatchNorm::relu_conv2d(const Tensor& x, const Tensor& w, const lathe::Conv2dOptions& conv) {
  return with_hooks(x, [&](const Tensor& in) {
    return normalize(in, [&](const lathe::BatchNormOptions& how) {
      return batch_norm_relu_conv2d(in, {weight, bias, running_mean, running_var}, w, how, conv);
    });
  });
}

Tensor BatchNorm::add_relu(const Tensor& x, const Tensor& residual) {
  return with_hooks(x, [&](const Tensor& in) {
    return normalize(in, [&](const lathe::BatchNormOptions& how) {
      if (is_synced()) return lathe::relu(synced(in, how) + residual);
      return batch_norm_add_relu(in, residual, weight, bias, running_mean, running_var, how);
    });
  });
}

void BatchNorm1d::check_input(const Tensor& x) const {
  LATHE_CHECK(ShapeError, x.ndim() == 2 || x.ndim() == 3,
              "BatchNorm1d: expected [N,C] or [N,C,L] (x: ", x, ")");
}

void BatchNorm2d::check_input(const Tensor& x) const {
  LATHE_CHECK(ShapeError, x.ndim() == 4, "BatchNorm2d: expected [N,C,H,W] (x: ", x, ")");
}

}  // namespace lathe::nn
