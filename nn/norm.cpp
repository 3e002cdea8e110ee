// LayerNorm, RMSNorm, LayerNorm2d, GroupNorm and InstanceNorm: parameters and checks; the
// computation is in ops/.
#include "lathe/nn/norm.h"

#include "lathe/ops/creation.h"
#include "lathe/ops/group_norm.h"
#include "lathe/ops/layer_norm.h"
#include "lathe/ops/rms_norm.h"
#include "lathe/ops/views.h"

namespace lathe::nn {

LayerNorm::LayerNorm(const Shape& normalized, const NormOptions& options)
    : normalized_(normalized), eps_(options.eps) {
  if (options.affine) {
    weight = parameter("weight", ones(normalized));
    if (options.bias) bias = parameter("bias", zeros(normalized));
  }
}

Tensor LayerNorm::forward(const Tensor& x) {
  return layer_norm(x, normalized_, {.weight = weight, .bias = bias, .eps = eps_});
}

RMSNorm::RMSNorm(const Shape& normalized, const RMSNormOptions& options)
    : normalized_(normalized), eps_(options.eps) {
  if (options.affine) weight = parameter("weight", ones(normalized));
}

Tensor RMSNorm::forward(const Tensor& x) {
  return rms_norm(x, normalized_, {.weight = weight, .eps = eps_});
}

LayerNorm2d::LayerNorm2d(int64_t channels, const NormOptions& options)
    : channels_(channels), eps_(options.eps) {
  LATHE_CHECK(ValueError, channels > 0, "LayerNorm2d: expected channels above 0, got ", channels);
  if (options.affine) {
    weight = parameter("weight", ones({channels}));
    if (options.bias) bias = parameter("bias", zeros({channels}));
  }
}

Tensor LayerNorm2d::forward(const Tensor& x) {
  LATHE_CHECK(ShapeError, x.ndim() == 4 && x.dim(1) == channels_, "LayerNorm2d: expected [N,",
              channels_, ",H,W] (x: ", x, ")");
  const Tensor last = permute(x, {0, 2, 3, 1});
  const Tensor y =
      layer_norm(last, Shape(channels_), {.weight = weight, .bias = bias, .eps = eps_});
  return permute(y, {0, 3, 1, 2});
}

GroupNorm::GroupNorm(int64_t groups, int64_t channels, const NormOptions& options)
    : groups_(groups), eps_(options.eps) {
  LATHE_CHECK(ValueError, groups > 0 && channels > 0 && channels % groups == 0,
              "GroupNorm: ", groups, " groups do not divide ", channels, " channels");
  if (options.affine) {
    weight = parameter("weight", ones({channels}));
    if (options.bias) bias = parameter("bias", zeros({channels}));
  }
}

Tensor GroupNorm::forward(const Tensor& x) {
  return group_norm(x, groups_, {.weight = weight, .bias = bias, .eps = eps_});
}

InstanceNorm::InstanceNorm(int64_t channels, const InstanceNormOptions& options)
    : channels_(channels), eps_(options.eps) {
  LATHE_CHECK(ValueError, channels > 0, "InstanceNorm: expected channels above 0, got ", channels);
  if (options.affine) {
    weight = parameter("weight", ones({channels}));
    bias = parameter("bias", zeros({channels}));
  }
}

Tensor InstanceNorm::forward(const Tensor& x) {
  LATHE_CHECK(ShapeError, x.ndim() >= 3 && x.dim(1) == channels_, "InstanceNorm: expected [N,",
              channels_, ",…] with positions (x: ", x, ")");
  LATHE_CHECK(ShapeError, !is_training() || x.numel() != x.dim(0) * channels_ || x.numel() == 0,
              "InstanceNorm: training needs more than one value per channel (x: ", x, ")");
  return group_norm(x, channels_, {.weight = weight, .bias = bias, .eps = eps_});
}

}  // namespace lathe::nn
