// Layer norm: each row of x, the features of one image, gets mean 0 and variance 1. Then each
// feature c has a weight and a bias of its own:
//
//   h_nc = (x_nc - mean_n) * s_n    y_nc = weight_c * h_nc + bias_c    s_n = 1 / sqrt(var_n + eps)
//
// A row knows nothing of the other rows, so there is no state, and evaluation is as training.
#pragma once

#include "tiny/pointwise.h"

namespace course {

using tiny::Tensor;

struct NormalisedRows {
  Tensor h;  // [N,C]
  Tensor s;  // [N]
};

/// h and s of x_in [N,C], which may be a view. var_n is the mean of the squared deviations from
/// mean_n.
inline NormalisedRows normalised_rows(const Tensor& x_in, double eps) {
  const Tensor x = copy_of(x_in);  // row-major
  const int64_t N = x.dim(0), C = x.dim(1);
  NormalisedRows rows{Tensor({N, C}), Tensor({N})};
  for (int64_t n = 0; n < N; ++n) {
    const double* value = x.data() + n * C;
    double mean = 0, var = 0;
    for (int64_t c = 0; c < C; ++c) mean += value[c] / C;
    for (int64_t c = 0; c < C; ++c) var += (value[c] - mean) * (value[c] - mean) / C;
    const double s = rows.s.data()[n] = 1 / std::sqrt(var + eps);
    for (int64_t c = 0; c < C; ++c) rows.h.data()[n * C + c] = (value[c] - mean) * s;
  }
  return rows;
}

/// {dx [N,C], dweight [C], dbias [C]} of dy_in [N,C], which may be a view.
inline std::vector<Tensor> layer_norm_gradients(const Tensor& dy_in, const NormalisedRows& rows,
                                                const Tensor& weight) {
  const Tensor dy = copy_of(dy_in);  // row-major
  const int64_t N = dy.dim(0), C = dy.dim(1);
  Tensor dx({N, C}), dweight({C}), dbias({C});
  for (int64_t n = 0; n < N; ++n) {
    const double *g = dy.data() + n * C, *h = rows.h.data() + n * C;
    double mean_u = 0, mean_uh = 0;  // u = weight * g is the gradient of h
    for (int64_t c = 0; c < C; ++c) {
      const double u = weight.data()[c] * g[c];
      mean_u += u / C;
      mean_uh += u * h[c] / C;
      dweight.data()[c] += g[c] * h[c];
      dbias.data()[c] += g[c];
    }
    for (int64_t c = 0; c < C; ++c)
      dx.data()[n * C + c] = rows.s.data()[n] * (weight.data()[c] * g[c] - mean_u - h[c] * mean_uh);
  }
  return {dx, dweight, dbias};
}

/// y [N,C] of x [N,C], a row-major weight [C], and bias [C].
/// throws: ShapeError.
inline Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                         double eps = 1e-5) {
  tiny::check<tiny::ShapeError>(
      x.ndim() == 2 && weight.shape() == tiny::Shape{x.dim(1)} && bias.shape() == weight.shape(),
      "layer_norm: x must be [N,C], weight and bias [C], got ", x.shape(), ", ", weight.shape(),
      " and ", bias.shape());
  const NormalisedRows rows = normalised_rows(x, eps);
  const Tensor y = rows.h * detach(weight) + detach(bias);
  return tiny::record("layer_norm", y, {x, weight, bias},
                      [rows, weight = tiny::Saved(weight)](const Tensor& dy, const tiny::Needs&) {
                        return layer_norm_gradients(dy, rows, weight.get());
                      });
}

}  // namespace course
