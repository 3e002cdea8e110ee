// Normalisation of rows to mean 0 and variance 1, then one scale and shift per channel: what
// layer_norm and group_norm share. row_norm.cpp: gradients; row_kernels/row_norm_cpu.cpp,
// row_norm_cuda.cu: kernels.
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

/// y = (x - mean) / sqrt(var + eps) * weight + bias, with the biased variance.
///   x  as many elements as `shape`     weight, bias  groups * channels elements each, or undefined
///   →  x's shape and dtype; computed in f32 or wider
/// grad: x, weight, bias, twice differentiable.
Tensor row_norm(const char* op, const Tensor& x, const RowNormShape& shape, const Tensor& weight,
                const Tensor& bias, double eps);

namespace cpu {
/// x and y are contiguous and of one dtype; the rest is contiguous in x's compute type. mean and
/// rstd = 1 / sqrt(var + eps) are [rows]. weight and bias may be undefined.
void row_norm_forward(const Tensor& y, const Tensor& mean, const Tensor& rstd, const Tensor& x,
                      const Tensor& weight, const Tensor& bias, const RowNormShape& shape,
                      double eps);
/// Writes dx and, if defined, dweight and dbias: [parts, groups * channels], where each part is the
/// sum over kRowNormPart rows and the caller adds up the parts.
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

/// Rows whose dweight and dbias are summed together: part i begins at row i * kRowNormPart.
inline constexpr int64_t kRowNormPart = 32;

}  // namespace lathe
