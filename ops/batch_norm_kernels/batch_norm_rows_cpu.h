// The inner loops of batch normalisation on the CPU. A tile of memory is seen as a matrix
// [rows, width] whose channels run along the rows (row-major tensors: one plane per row) or along
// the columns (NHWC: one pixel or more per row).
//
// bfloat16 is computed in float and rounded where it is written, in the same loop. Every loop is
// written for 64-byte vectors and a fixed order of additions, so the result does not depend on the
// instruction set that LATHE_CLONES picks.
#pragma once

#include <cstdint>

#include "lathe/core/half.h"
#include "lathe/core/visit.h"
#include "lathe/ops/batch_norm.h"

namespace lathe::cpu {

/// Where the parameters of matrix element (r, i) are: at [r] (kRows) or at [i] (kColumns).
enum class ChannelAlong : uint8_t { kRows, kColumns };

struct TileShape {
  int64_t rows, width;
  ChannelAlong channels;
};

/// Per-channel numbers, in the order of the tile's rows or columns:
///   t = x - mean,  y = t * scale + bias,  dx = scale * dy - slope * t - offset.
template <class S>
struct TileParams {
  const S *mean, *scale, *bias, *slope, *offset;
};

/// The loops over tiles of T, which is float, BFloat16 or double.
template <class T>
struct TileLoops {
  using S = ComputeType<T>;

  /// sum[c] += sum of x over the channel's elements.
  static void sums(const TileShape& shape, S* sum, const T* x);

  /// sum[c] += sum of (x - mean[c])^2.
  static void squares(const TileShape& shape, S* sum, const T* x, const S* mean);

  /// y = form(t * scale + bias [+ residual]).
  static void apply(const TileShape& shape, BatchNormForm form, T* y, const T* x, const T* residual,
                    const TileParams<S>& p);

  /// sum_g[c] += sum of g and sum_gt[c] += sum of g * t, where g = dy where form passes it, else 0.
  /// kAddRelu reads its mask from y. kRelu computes its mask.
  static void grad_sums(const TileShape& shape, BatchNormForm form, S* sum_g, S* sum_gt,
                        const T* dy, const T* x, const T* y, const TileParams<S>& p);

  /// Like grad_sums(), for dy + second in place of dy (only dy if second is null). Writes g to
  /// g_out, which may be dy or second. The sums are those of g before it is rounded to T.
  static void grad_sums_kept(const TileShape& shape, BatchNormForm form, S* sum_g, S* sum_gt,
                             T* g_out, const T* dy, const T* second, const T* x, const T* y,
                             const TileParams<S>& p);

  /// dx = scale * g - slope * t - offset, with g as above; dx may be dy or x.
  static void grad_input(const TileShape& shape, BatchNormForm form, T* dx, const T* dy, const T* x,
                         const T* y, const TileParams<S>& p);
};

}  // namespace lathe::cpu
