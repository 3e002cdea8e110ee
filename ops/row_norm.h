// Normalisation of rows to mean 0 and variance 1, then one scale and shift per channel: what
// layer_norm and group_norm share.
#pragma once

#include "lathe/core/tensor.h"

namespace lathe {

/// A contiguous tensor as [samples, groups, channels, inner]. A row is one (sample, group):
/// channels * inner adjacent numbers with one mean and one variance. There are groups * channels
/// weights and biases.
///   layer norm: [rows, 1, normalised elements, 1]      group norm: [N, G, C/G, H*W]
struct RowNormShape {
  int64_t samples, groups, channels, inner;

  LATHE_HD int64_t rows() const { return samples * groups; }
  LATHE_HD int64_t row_size() const { return channels * inner; }
};

/// y = (x - mean) / sqrt(var + eps) * weight + bias, var biased.
///   x  as many elements as `shape`     weight, bias  groups * channels elements each, or undefined
///   →  x's shape and dtype; computed in f32 or wider.   grad: x, weight, bias (twice).
Tensor row_norm(const char* op, const Tensor& x, const RowNormShape& shape, const Tensor& weight,
                const Tensor& bias, double eps);

namespace cpu {
/// x, y contiguous, of one dtype; the rest in x's compute type, contiguous. mean, rstd = 1 /
/// sqrt(var + eps): [rows]. weight and bias may be undefined.
void row_norm_forward(const Tensor& y, const Tensor& mean, const Tensor& rstd, const Tensor& x,
                      const Tensor& weight, const Tensor& bias, const RowNormShape& shape,
                      double eps);
/// dx, and if defined dweight and dbias: [parts, groups * channels], to be added up over
/// kRowNormPart rows each.
void row_norm_backward(const Tensor& dx, const Tensor& dweight, const Tensor& dbias,
                       const Tensor& dy, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                       const Tensor& weight, const RowNormShape& shape);
}  // namespace cpu
namespace cuda {
void row_norm_forward(const Tensor& y, const Tensor& mean, const Tensor& rstd, const Tensor& x,
                      const Tensor& weight, const Tensor& bias, const RowNormShape& shape,
                      double eps);
void row_norm_backward(const Tensor& dx, const Tensor& dweight, const Tensor& dbias,
                       const Tensor& dy, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                       const Tensor& weight, const RowNormShape& shape);
}  // namespace cuda

/// Rows whose dweight and dbias are added in one go; part i holds rows i * kRowNormPart and on.
inline constexpr int64_t kRowNormPart = 32;

}  // namespace lathe
