// Batch normalisation layers: buffers, the choice between batch and running statistics, checks.
#include "lathe/nn/batch_norm.h"

#include "lathe/autograd/grad_mode.h"
#include "lathe/autograd/saved.h"
#include "lathe/core/hooks/watch.h"
#include "lathe/ops/autocast.h"
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

/// A call whose values nobody has asked for: what it reads.
struct NormRelu::Waiting {
  Tensor x;
  BatchNormTensors tensors;
  lathe::BatchNormOptions how;
  autograd::Mode mode;
  uint32_t x_version = x.version();
  uint32_t weight_version = tensors.weight.version(), bias_version = tensors.bias.version();
  Tensor value = {};
  bool is_taken = false;  // by a convolution: the statistics have moved

  void check() const {
    const auto check_one = [](const char* name, const Tensor& t, uint32_t version) {
      LATHE_CHECK(StateError, t.version() == version, "BatchNorm::relu: ", name,
                  " was modified by an in-place operation before its values were computed (", name,
                  ": ", t, ")");
    };
    check_one("x", x, x_version);
    check_one("weight", tensors.weight, weight_version);
    check_one("bias", tensors.bias, bias_version);
  }
};

/// True if the fused op may take x; it looks at the rest itself.
static bool is_fused(const Tensor& x) {
  if (!x.defined() || x.ndim() != 4) return false;
  if (x.device().is_cuda()) return x.dtype() == kF16;
  return x.dtype() == kF32 && x.is_contiguous(kChannelsLast) && grad_enabled() &&
         !profile::watched();
}

NormRelu BatchNorm::relu(const Tensor& x) {
  // What the norm would refuse is refused here, in its own name.
  const bool may_wait = is_training() && is_fused(x) && !has_hooks() && !sum_ &&
                        options_.momentum && weight.defined() && running_mean.defined() &&
                        x.dim(1) == weight.dim(0) && x.numel() > x.dim(1) &&
                        weight.dtype() == kF32 && weight.device() == x.device() &&
                        running_mean.dtype() == kF32 && running_mean.device() == x.device();
  if (!may_wait) return NormRelu(relu_now(x));
  using autograd::lasting;
  std::shared_ptr<NormRelu::Waiting> waiting;
  call([&] {
    normalize(x, [&](lathe::BatchNormOptions how) {
      if (how.num_batches.defined()) how.num_batches = lasting(how.num_batches);
      autograd::Mode mode = autograd::current_mode();
      mode.would_record = nullptr;  // of the scope that is open when the values are computed
      waiting = std::make_shared<NormRelu::Waiting>(NormRelu::Waiting{
          lasting(x),
          {lasting(weight), lasting(bias), lasting(running_mean), lasting(running_var)},
          how,
          mode});
      return Tensor();
    });
  });
  return NormRelu(std::move(waiting));
}

NormRelu::operator Tensor() const {
  if (waiting_ == nullptr) return value_;
  Waiting& w = *waiting_;
  if (w.value.defined()) return w.value;
  w.check();
  autograd::Mode mode = w.mode;
  mode.would_record = autograd::current_mode().would_record;
  const autograd::ModeScope as_called(mode);
  const auto& [weight, bias, running_mean, running_var] = w.tensors;
  if (w.is_taken) {
    w.value = batch_norm_relu(w.x, weight, bias, {}, {}, {.training = true, .eps = w.how.eps});
  } else {
    w.value = batch_norm_relu(w.x, weight, bias, running_mean, running_var, w.how);
  }
  return w.value;
}

bool NormRelu::waits() const {
  return waiting_ != nullptr && !waiting_->value.defined() && !waiting_->is_taken &&
         waiting_->mode.grad == grad_enabled() && waiting_->mode.inference == inference_enabled();
}

Tensor NormRelu::into_conv2d(const Tensor& w, const lathe::Conv2dOptions& conv) const {
  LATHE_CHECK(StateError, waits(),
              "BatchNorm::relu: the values have been computed or taken already");
  waiting_->check();
  const NormReluConv2dCall call{waiting_->x, amp::cast(amp::kHalf, w), waiting_->tensors,
                                waiting_->how, conv};
  if (!norm_relu_conv2d_fuses(call)) return conv2d(Tensor(*this), w, conv);  // the values are kept
  Tensor y = batch_norm_relu_conv2d(call.x, call.tensors, w, call.norm, conv);
  waiting_->is_taken = true;
  return y;
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
