// Batch normalisation and its fused forms: checks, running statistics, gradients. Contracts:
// batch_norm.h.
#include "lathe/ops/batch_norm.h"

#include "lathe/autograd/companion.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/autograd/recompute.h"
#include "lathe/autograd/record.h"
#include "lathe/autograd/sole_owner.h"
#include "lathe/core/copy.h"
#include "lathe/core/dispatch.h"
#include "lathe/core/hooks/range.h"
#include "lathe/core/hooks/watch.h"
#include "lathe/core/unmeasured.h"
#include "lathe/core/visit.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/conv/conv2d_block_end.h"
#include "lathe/ops/inplace.h"
#include "lathe/ops/memory_format.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"

namespace lathe {

using autograd::Needs;
using autograd::RecomputationPtr;
using autograd::record;
using autograd::Saved;

// With t = x - mean, s = 1/sqrt(var + eps), h = t s, g = dy where the relu passed it, and means
// over each channel:
//   dweight = sum(g h),  dbias = sum(g),  dx = weight s (g - mean(g) - h mean(g h))
// Without batch statistics mean and s are constants, and dx = weight s g.
Tensors batch_norm_gradients(const BatchNormCall& call, double eps, const Tensor& dy_in,
                             const Tensor& y) {
  Dims others;
  Shape per_channel = Dims::filled(call.x.ndim(), 1);
  per_channel[1] = call.x.dim(1);
  for (int d = 0; d < call.x.ndim(); ++d) {
    if (d != 1) others.push_back(d);
  }
  const auto spread = [&](const Tensor& t) { return reshape(t, per_channel); };
  const auto channel_mean = [&](const Tensor& t) { return mean(t, others, {.keepdim = true}); };

  const Tensor x = cast(call.x, call.mean.dtype()), dy = cast(dy_in, call.mean.dtype());
  Tensor t, s;
  if (call.batch_stats) {
    t = sub(x, channel_mean(x));
    s = rsqrt(add(channel_mean(square(t)), eps));
  } else {
    t = sub(x, spread(call.mean));
    s = spread(call.invstd);
  }
  const Tensor h = mul(t, s);
  const Tensor scale = call.weight.defined() ? mul(s, spread(call.weight)) : s;

  Tensor g = dy;
  if (call.form == BatchNormForm::kRelu) {
    const Tensor scaled = mul(t, scale);
    g = relu_grad(dy, call.bias.defined() ? add(scaled, spread(call.bias)) : scaled);
  } else if (call.form == BatchNormForm::kAddRelu) {
    g = relu_grad(dy, cast(y, dy.dtype()));
  }
  const Tensor gh = mul(g, h);
  const Tensor dx = call.batch_stats
                        ? mul(scale, sub(sub(g, channel_mean(g)), mul(h, channel_mean(gh))))
                        : mul(scale, g);
  return {cast(dx, call.x.dtype()), cast(g, call.x.dtype()), sum(gh, others), sum(g, others)};
}

namespace {

/// The tensors of one call, named.
struct Inputs {
  const Tensor &x, &residual, &weight, &bias, &running_mean, &running_var;
};

/// A tensor with one number per channel.
void check_channels(const char* op, const char* name, const Tensor& t, const Tensor& x) {
  if (!t.defined()) return;
  LATHE_CHECK(ShapeError, t.ndim() == 1 && t.dim(0) == x.dim(1), op, ": ", name, " must be [",
              x.dim(1), "], one number per channel of x (", name, ": ", t, ", x: ", x, ")");
  const DType wanted = compute_dtype(x.dtype());
  LATHE_CHECK(DTypeError, t.dtype() == wanted, op, ": ", name, " must be ", wanted, " for x of ",
              x.dtype(), " (", name, ": ", t, ", x: ", x, ")");
  LATHE_CHECK(DeviceError, t.device() == x.device(), op, ": ", name, " is on another device (",
              name, ": ", t, ", x: ", x, ")");
}

void check(const char* op, const Inputs& in, const BatchNormOptions& opt) {
  const Tensor& x = in.x;
  LATHE_CHECK(ShapeError, x.ndim() >= 2 && x.ndim() <= 5, op,
              ": x must be [N,C] with 0 to 3 more dimensions (x: ", x, ")");
  LATHE_CHECK(DTypeError, is_floating(x.dtype()), op, ": x must be floating (x: ", x, ")");
  check_channels(op, "weight", in.weight, x);
  check_channels(op, "bias", in.bias, x);
  check_channels(op, "running_mean", in.running_mean, x);
  check_channels(op, "running_var", in.running_var, x);
  LATHE_CHECK(ValueError, in.running_mean.defined() == in.running_var.defined(), op,
              ": running_mean and running_var go together (running_mean: ", in.running_mean,
              ", running_var: ", in.running_var, ")");
  LATHE_CHECK(ValueError, opt.eps >= 0, op, ": eps must be 0 or more, got ", opt.eps);
  const bool moves = opt.training && in.running_mean.defined();
  LATHE_CHECK(ValueError, !moves || (opt.momentum >= 0 && opt.momentum <= 1), op,
              ": momentum must be in [0, 1], got ", opt.momentum);
  const Tensor& n = opt.num_batches;
  LATHE_CHECK(DTypeError, !n.defined() || (n.dtype() == kI64 && n.ndim() == 0), op,
              ": num_batches must be a 0-d i64 (num_batches: ", n, ")");
  LATHE_CHECK(DeviceError, !n.defined() || n.device() == x.device(), op,
              ": num_batches is on another device (num_batches: ", n, ", x: ", x, ")");
  if (!in.residual.defined()) return;
  LATHE_CHECK(ShapeError, in.residual.shape() == x.shape(), op,
              ": residual must have x's shape (residual: ", in.residual, ", x: ", x, ")");
  LATHE_CHECK(DTypeError, in.residual.dtype() == x.dtype(), op,
              ": residual must have x's dtype (residual: ", in.residual, ", x: ", x, ")");
  LATHE_CHECK(DeviceError, in.residual.device() == x.device(), op,
              ": residual is on another device (residual: ", in.residual, ", x: ", x, ")");
}

/// The number of values per channel if this call updates the running statistics, else 0.
int64_t moving_count(const char* op, const Inputs& in, bool batch_stats,
                     const BatchNormOptions& opt) {
  if (!batch_stats) return 0;
  const int64_t count = in.x.numel() / std::max<int64_t>(in.x.dim(1), 1);
  LATHE_CHECK(ShapeError, count != 1, op,
              ": training needs more than one value per channel (x: ", in.x, ")");
  if (!opt.training || !in.running_mean.defined()) return 0;
  if (count > 0) {
    autograd::check_in_place(op, in.running_mean);
    autograd::check_in_place(op, in.running_var);
  }
  return count;
}

/// How y is computed again by the form's kernel alone, from statistics that are known. Null where
/// y is to be kept.
RecomputationPtr recomputation_of(const BatchNormCall& call, const Tensor& residual) {
  if (!autograd::recomputes()) return nullptr;
  const int steps = 1 + autograd::recompute_steps(call.x) + autograd::recompute_steps(residual);
  if (steps > autograd::kMostSteps) return nullptr;
  return autograd::make_recomputation(steps, [&]() -> std::function<Tensor()> {
    return [form = call.form, x = Saved(call.x), residual = Saved(residual), mean = call.mean,
            invstd = call.invstd, weight = Saved(call.weight), bias = Saved(call.bias),
            batch_stats = call.batch_stats] {
      const Tensor added = residual.get();
      const BatchNormCall again{form, x.get(), mean, invstd, weight.get(), bias.get(), batch_stats};
      const profile::OpRange range("batch_norm_again", {again.x, added});
      const Tensor y = LATHE_DISPATCH(again.x.device(), batch_norm_forward(again, added));
      profile::note_output(y);
      return y;
    };
  });
}

/// The values. The call gets its statistics, and the running ones of `count` values move.
Tensor compute(BatchNormCall& call, const Inputs& in, const Tensor& residual, int64_t count,
               const BatchNormOptions& opt) {
  const Device device = call.x.device();
  if (call.batch_stats) {
    call.sums = autograd::companion_of(in.x);
    BatchNormRunning running{{}, {}, opt.momentum, opt.num_batches};
    if (count > 0) {
      running.mean = in.running_mean;
      running.var = in.running_var;
    }
    return LATHE_DISPATCH(device, batch_norm_train(call, residual, opt.eps, running));
  }
  call.mean = in.running_mean;
  call.invstd = LATHE_DISPATCH(device, batch_norm_invstd(in.running_var, opt.eps));
  Tensor y = LATHE_DISPATCH(device, batch_norm_forward(call, residual));
  // A later training step changes the running mean: keep a copy.
  call.mean = empty_like(in.running_mean);
  copy_values(call.mean, in.running_mean);
  return y;
}

/// Records the gradient. At a block's end on a GPU the node is a cuda::BlockEnd, which a
/// convolution that reads y can recognise. It keeps the residual, so it is not used where Recompute
/// or SavedTensorHooks are to save memory.
template <class F>
void record_norm(const char* op, const Tensor& y, const BatchNormCall& call,
                 std::initializer_list<autograd::TensorRef> inputs, F gradient) {
  if constexpr (kHasCuda) {
    const bool shows = call.form == BatchNormForm::kAddRelu && call.batch_stats &&
                       y.device().is_cuda() && tries(Unmeasured::kResidualGrad) &&
                       !autograd::recomputes() && !autograd::packs_saved();
    if (shows && autograd::wants_record(inputs.begin(), inputs.size())) {
      profile::note_output(y);
      const Tensor& residual = *inputs.begin()[1].tensor;
      return autograd::attach(
          y, inputs.begin(), inputs.size(),
          autograd::NodePtr(new cuda::BlockEnd(op, call, residual, std::move(gradient))));
    }
  }
  record(op, y, inputs, std::move(gradient));
}

Tensor normalize(const char* op, BatchNormForm form, const Inputs& in,
                 const BatchNormOptions& opt) {
  check(op, in, opt);
  const MemoryFormat format = memory_format_of(in.x);
  const Tensor x = contiguous(in.x, format);
  const Tensor residual = in.residual.defined() ? contiguous(in.residual, format) : Tensor();
  const bool batch_stats = opt.training || !in.running_mean.defined();
  const int64_t count = moving_count(op, in, batch_stats, opt);

  BatchNormCall call{form, x, {}, {}, in.weight, in.bias, batch_stats};
  call.wants_passed = form == BatchNormForm::kAddRelu && grad_enabled() && x.device().is_cuda() &&
                      tries(Unmeasured::kReluBits);
  Tensor y = compute(call, in, residual, count, opt);
  // Only kAddRelu needs y, and only its values: it is kept without history, so that there is no
  // cycle.
  const Tensor mask =
      form == BatchNormForm::kAddRelu ? alias(y, y.shape(), y.strides(), y.offset()) : Tensor();
  const RecomputationPtr recomputation = recomputation_of(call, residual);
  if (recomputation != nullptr) {
    autograd::set_recomputation(y, recomputation);
    if (mask.defined()) autograd::set_recomputation(mask, recomputation);
  }
  record_norm(
      op, y, call, {x, residual, in.weight, in.bias},
      [form, x = Saved(x), weight = Saved(in.weight), bias = Saved(in.bias), y = Saved(mask),
       mean = call.mean, invstd = call.invstd, batch_stats, format, eps = opt.eps,
       passed = call.passed, recomputation](const Tensors& parts, const Needs& need) {
        BatchNormCall c{form, x.get(), mean, invstd, weight.get(), bias.get(), batch_stats};
        if (grad_enabled()) return batch_norm_gradients(c, eps, parts.front(), y.get());
        BatchNormGrads grads{need[0], need[1], need[2] || need[3], {}, {}, {}, {}};
        // Whoever gets dx is to find it in the order of x.
        const auto is_free = [&](const Tensor& part) {
          return autograd::is_sole_owner(part) && part.strides() == c.x.strides();
        };
        const Tensor& given = parts.front();
        grads.dy_is_free = is_free(given);
        grads.second_is_free = parts.size() > 1 && is_free(parts[1]);
        c.passed = passed;
        // Not computed again for a gradient that does not read it.
        const Tensor kept = passed.defined() && recomputation != nullptr ? Tensor() : y.get();
        const Tensor dy = given.device().is_cuda() ? given : contiguous(given, format);
        if (parts.size() > 1) grads.second_dy = contiguous(parts[1], format);
        LATHE_DISPATCH(dy.device(), batch_norm_backward(grads, c, dy, kept));
        return Tensors{grads.dx, grads.dresidual, grads.dweight, grads.dbias};
      });
  if (count > 0) {
    in.running_mean.bump_version();
    in.running_var.bump_version();
    if (opt.num_batches.defined()) opt.num_batches.bump_version();
  } else if (opt.training && opt.num_batches.defined()) {
    const NoGrad off;
    add_(opt.num_batches, 1);
  }
  return y;
}

}  // namespace

Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                  const Tensor& running_mean, const Tensor& running_var,
                  const BatchNormOptions& options) {
  const profile::OpRange range("batch_norm", {x, weight, bias, running_mean, running_var});
  profile::note_arguments(options);
  profile::raise_found();  // before statistics are written that nobody may write
  return normalize("batch_norm", BatchNormForm::kPlain,
                   {x, Tensor(), weight, bias, running_mean, running_var}, options);
}

Tensor batch_norm_relu(const Tensor& x, const Tensor& weight, const Tensor& bias,
                       const Tensor& running_mean, const Tensor& running_var,
                       const BatchNormOptions& options) {
  const profile::OpRange range("batch_norm_relu", {x, weight, bias, running_mean, running_var});
  profile::note_arguments(options);
  profile::raise_found();
  return normalize("batch_norm_relu", BatchNormForm::kRelu,
                   {x, Tensor(), weight, bias, running_mean, running_var}, options);
}

Tensor batch_norm_add_relu(const Tensor& x, const Tensor& residual, const Tensor& weight,
                           const Tensor& bias, const Tensor& running_mean,
                           const Tensor& running_var, const BatchNormOptions& options) {
  const profile::OpRange range("batch_norm_add_relu",
                               {x, residual, weight, bias, running_mean, running_var});
  profile::note_arguments(options);
  profile::raise_found();
  LATHE_CHECK(ValueError, residual.defined(), "batch_norm_add_relu: residual is undefined (x: ", x,
              ")");
  return normalize("batch_norm_add_relu", BatchNormForm::kAddRelu,
                   {x, residual, weight, bias, running_mean, running_var}, options);
}

}  // namespace lathe
