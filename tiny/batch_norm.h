// Batch norm: each channel is shifted and scaled to mean 0 and variance 1 over the batch, and then
// to what two learnt numbers say. For the m values x_i of one channel (all images, all pixels):
//
//   mean = (1/m) sum x_i      var = (1/m) sum (x_i - mean)²      s = 1 / sqrt(var + eps)
//   h_i = (x_i - mean) * s    y_i = weight * h_i + bias
//
// Backward. Let g_i = dL/dy_i. weight and bias are easy:
//
//   dweight = sum g_i * h_i      dbias = sum g_i
//
// A change of x_j moves y_i in three ways: directly if i = j, through the mean, and through s.
// Below [i = j] is 1 if i = j, and else 0.
//
//   dmean/dx_j = 1/m
//   dvar/dx_j  = (2/m) (x_j - mean)     and through the mean -(2/m) (1/m) sum (x_i - mean) = 0
//   ds/dx_j    = -1/2 (var + eps)^(-3/2) * dvar/dx_j  =  -s³ (x_j - mean) / m  =  -s² h_j / m
//
//   dh_i/dx_j  = s [i = j] - s / m + (x_i - mean) * (-s² h_j / m)
//              = s ([i = j] - 1/m - h_i h_j / m)
//
// Multiply by weight * g_i and add up over i:
//
//   dx_j = weight * s * (g_j - mean(g) - h_j * mean(g * h))
//
// With the running statistics mean and s are constants, and only the first way is left:
// dx_j = weight * s * g_j.
#pragma once

#include "pointwise.h"
#include "views.h"

namespace tiny {

struct BatchNormOptions {
  bool training = false;  // true: the batch's statistics, which also update the running ones
  double momentum = 0.1;  // the running statistics' weight of the new value (in sgd.h: of the old)
  double eps = 1e-5;
};

/// One channel of x [N,C,…]: calls f(place) for each of its values.
template <class F>
void for_each_of_channel(const Shape& shape, int64_t c, F&& f) {
  const int64_t channels = shape[1], values = numel_of(shape) / (shape[0] * channels);
  for (int64_t n = 0; n < shape[0]; ++n)
    for (int64_t i = 0; i < values; ++i) f((n * channels + c) * values + i);
}

/// What normalises each channel: [C] each.
struct ChannelStats {
  Tensor mean, invstd;  // invstd: s
};

/// The statistics of x. Updates the running ones:
///   running = (1 - momentum) * running + momentum * batch
/// where the batch's variance is that of the formula times m / (m - 1). The batch's own mean is
/// nearer to its values than that of all images, so without it the variance would be too small.
inline ChannelStats batch_statistics(const Tensor& x, Tensor& running_mean, Tensor& running_var,
                                     const BatchNormOptions& opt) {
  ChannelStats stats{Tensor(running_mean.shape()), Tensor(running_mean.shape())};
  double* mean_kept = writable("batch_norm", running_mean);
  double* var_kept = writable("batch_norm", running_var);
  const double* value = x.data();
  const double m = x.numel() / x.dim(1);
  for (int64_t c = 0; c < x.dim(1); ++c) {
    double mean = 0, squares = 0;
    for_each_of_channel(x.shape(), c, [&](int64_t i) { mean += value[i]; });
    mean /= m;
    // Of the deviations. mean(x²) - mean² would be a small difference of large numbers.
    for_each_of_channel(x.shape(), c,
                        [&](int64_t i) { squares += (value[i] - mean) * (value[i] - mean); });
    mean_kept[c] = (1 - opt.momentum) * mean_kept[c] + opt.momentum * mean;
    var_kept[c] = (1 - opt.momentum) * var_kept[c] + opt.momentum * squares / (m - 1);
    stats.mean.data()[c] = mean;
    stats.invstd.data()[c] = 1 / std::sqrt(squares / m + opt.eps);
  }
  return stats;
}

inline ChannelStats running_statistics(const Tensor& mean, const Tensor& var, double eps) {
  return {copy_of(mean), map(var, [eps](double v) { return 1 / std::sqrt(v + eps); })};
}

/// {dx, dweight, dbias} by the formulas above. `training`: the statistics depend on x.
inline std::vector<Tensor> batch_norm_gradients(const Tensor& dy, const Tensor& x,
                                                const Tensor& weight, const ChannelStats& stats,
                                                bool training) {
  Tensor dx(x.shape()), dweight(weight.shape()), dbias(weight.shape());
  const double *g = dy.data(), *value = x.data();
  const double m = x.numel() / x.dim(1);
  for (int64_t c = 0; c < x.dim(1); ++c) {
    const double mean = stats.mean.data()[c], s = stats.invstd.data()[c];
    double sum_g = 0, sum_gh = 0;
    for_each_of_channel(x.shape(), c, [&](int64_t i) {
      sum_g += g[i];
      sum_gh += g[i] * (value[i] - mean) * s;
    });
    dweight.data()[c] = sum_gh;
    dbias.data()[c] = sum_g;
    const double mean_g = training ? sum_g / m : 0, mean_gh = training ? sum_gh / m : 0;
    for_each_of_channel(x.shape(), c, [&](int64_t i) {
      const double h = (value[i] - mean) * s;
      dx.data()[i] = weight.data()[c] * s * (g[i] - mean_g - h * mean_gh);
    });
  }
  return {dx, dweight, dbias};
}

/// x [N,C,…], the others [C]  →  x's shape.
/// throws: ShapeError; also in training for a single value per channel, which has no variance.
inline Tensor batch_norm(const Tensor& x_in, const Tensor& weight, const Tensor& bias,
                         Tensor& running_mean, Tensor& running_var, const BatchNormOptions& opt) {
  check<ShapeError>(x_in.ndim() >= 2 && x_in.numel() > 0,
                    "batch_norm: x must be [N,C,…] and not empty, got ", x_in.shape());
  for (const Tensor& t : {weight, bias, running_mean, running_var})
    check<ShapeError>(t.shape() == Shape{x_in.dim(1)} && t.is_contiguous(),
                      "batch_norm: ", t.shape(), " does not fit the channels of x, ", x_in.shape());
  check<ShapeError>(!opt.training || x_in.numel() > x_in.dim(1),
                    "batch_norm: training needs several values per channel, got ", x_in.shape());
  const Tensor x = contiguous(detach(x_in));
  const ChannelStats stats = opt.training ? batch_statistics(x, running_mean, running_var, opt)
                                          : running_statistics(running_mean, running_var, opt.eps);
  Tensor y(x.shape());
  for (int64_t c = 0; c < x.dim(1); ++c) {
    const double mean = stats.mean.data()[c], s = stats.invstd.data()[c];
    for_each_of_channel(x.shape(), c, [&](int64_t i) {
      y.data()[i] = weight.data()[c] * (x.data()[i] - mean) * s + bias.data()[c];
    });
  }
  return record("batch_norm", y, {x_in, weight, bias},
                [x = Saved(x), weight = Saved(weight), stats, training = opt.training](
                    const Tensor& dy, const Needs&) {
                  return batch_norm_gradients(contiguous(dy), x.get(), weight.get(), stats,
                                              training);
                });
}

}  // namespace tiny

// What the real one adds, and why
// - ops/batch_norm.h: batch_norm_relu(). The op computes little and reads much, so a relu that
//   follows runs in the same pass.
// - nn/batch_norm_synced.cpp: over several GPUs the statistics are those of all of them.
