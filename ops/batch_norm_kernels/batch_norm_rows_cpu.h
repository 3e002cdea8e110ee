// The inner loops of batch normalisation on the CPU. A block of memory is seen as a matrix
// [rows, width] whose channels run along the rows (row-major tensors: one plane per row) or along
// the columns (NHWC: one pixel or more per row).
//
// bfloat16 is computed in float and rounded where it is written, in the same loop. Every loop is
// written for 64-byte vectors and a fixed order of additions, so the result does not depend on the
// instruction set that LATHE_CLONES picks.
#pragma once

#include <cstdint>

#include "lathe/core/half.h"
#include "lathe/ops/batch_norm.h"

namespace lathe::cpu {

/// Where the parameters of matrix element (r, i) are: at [r] (kRows) or at [i] (kColumns).
enum class ChannelAlong : uint8_t { kRows, kColumns };

struct BlockShape {
  int64_t rows, width;
  ChannelAlong channels;
};

/// Per-channel numbers, in the order of the block's rows or columns:
///   t = x - mean,  y = t * scale + bias,  dx = scale * dy - slope * t - offset.
template <class S>
struct ChannelParams {
  const S *mean, *scale, *bias, *slope, *offset;
};

/// sum[c] += sum of x over the channel's elements.
void block_sums(const BlockShape& shape, float* sum, const float* x);
void block_sums(const BlockShape& shape, float* sum, const BFloat16* x);
void block_sums(const BlockShape& shape, double* sum, const double* x);

/// sum[c] += sum of (x - mean[c])^2.
void block_squares(const BlockShape& shape, float* sum, const float* x, const float* mean);
void block_squares(const BlockShape& shape, float* sum, const BFloat16* x, const float* mean);
void block_squares(const BlockShape& shape, double* sum, const double* x, const double* mean);

/// y = form(t * scale + bias [+ residual]); y may be x or residual.
void block_apply(const BlockShape& shape, BatchNormForm form, float* y, const float* x,
                 const float* residual, const ChannelParams<float>& p);
void block_apply(const BlockShape& shape, BatchNormForm form, BFloat16* y, const BFloat16* x,
                 const BFloat16* residual, const ChannelParams<float>& p);
void block_apply(const BlockShape& shape, BatchNormForm form, double* y, const double* x,
                 const double* residual, const ChannelParams<double>& p);

/// sum_g[c] += sum of g and sum_gt[c] += sum of g * t, where g = dy where form passes it, else 0. g
/// is written to g_out (which may be dy) unless that is null. kAddRelu reads its mask from y, kRelu
/// computes it.
void block_grad_sums(const BlockShape& shape, BatchNormForm form, float* sum_g, float* sum_gt,
                     float* g_out, const float* dy, const float* x, const float* y,
                     const ChannelParams<float>& p);
void block_grad_sums(const BlockShape& shape, BatchNormForm form, float* sum_g, float* sum_gt,
                     BFloat16* g_out, const BFloat16* dy, const BFloat16* x, const BFloat16* y,
                     const ChannelParams<float>& p);
void block_grad_sums(const BlockShape& shape, BatchNormForm form, double* sum_g, double* sum_gt,
                     double* g_out, const double* dy, const double* x, const double* y,
                     const ChannelParams<double>& p);

/// dx = scale * g - slope * t - offset, with g as above; dx may be dy or x.
void block_grad_input(const BlockShape& shape, BatchNormForm form, float* dx, const float* dy,
                      const float* x, const float* y, const ChannelParams<float>& p);
void block_grad_input(const BlockShape& shape, BatchNormForm form, BFloat16* dx, const BFloat16* dy,
                      const BFloat16* x, const BFloat16* y, const ChannelParams<float>& p);
void block_grad_input(const BlockShape& shape, BatchNormForm form, double* dx, const double* dy,
                      const double* x, const double* y, const ChannelParams<double>& p);

}  // namespace lathe::cpu
