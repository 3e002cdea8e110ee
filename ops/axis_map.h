// AxisMap: a sparse linear map along one axis,
//   out[i] = sum over taps of weight * in[begin[i] + tap] / divisor[i].
// Two of them, for rows and columns, describe average pooling, adaptive pooling and upsampling;
// transposed, they describe the gradient of each. See ops/resample.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lathe/core/config.h"

namespace lathe {

struct AxisMap {
  int64_t in = 0;               // length of the input axis
  std::vector<int64_t> begin;   // of each output: its first tap …
  std::vector<int64_t> offset;  // … and where its weights start; one more entry than outputs
  std::vector<double> weight;
  std::vector<double> divisor;  // of each output

  int64_t out() const { return static_cast<int64_t>(begin.size()); }
  int64_t taps(int64_t i) const {
    return offset[static_cast<size_t>(i + 1)] - offset[static_cast<size_t>(i)];
  }
};

/// One window along one axis.
struct Window1d {
  int64_t kernel, stride, pad, dilation;
  bool ceil_mode;
};

/// The number of windows: (in + 2 pad - dilation (kernel - 1) - 1) / stride + 1, rounded down. In
/// ceil mode it is rounded up, but the last window must still start inside the input or its left
/// padding. 0: the window is larger than the padded input, in ceil mode by a stride or more. pad is
/// at most half the kernel.
LATHE_API int64_t pooled_size(int64_t in, const Window1d& window);

// The maps.
// throws: OutOfMemoryError, before anything is computed.

/// Means over windows. With `count_pad` the divisor counts the padding, but nothing beyond it.
LATHE_API AxisMap average_map(int64_t in, const Window1d& window, bool count_pad);
/// Sums over windows, each divided by `divisor`.
LATHE_API AxisMap sum_map(int64_t in, const Window1d& window, int64_t divisor);
/// Output i is the mean over [floor(i in/out), ceil((i+1) in/out)).
LATHE_API AxisMap adaptive_average_map(int64_t in, int64_t out);
/// Output i copies input min(floor((i + shift) * step), in - 1). step is in/out, or 1/scale for a
/// given scale; with a shift of 1/2 it is the input whose middle is nearest.
LATHE_API AxisMap nearest_map(int64_t in, int64_t out, double step, double shift = 0.0);
/// Linear interpolation between the two inputs around each output's position: (i + 1/2) step - 1/2,
/// at least 0; with align_corners i (in-1)/(out-1).
LATHE_API AxisMap linear_map(int64_t in, int64_t out, double step, bool align_corners);

/// Cubic convolution with a = -3/4 of the four inputs around the same position, which may lie below
/// 0; inputs beyond the ends are the outermost ones.
/// ref: Keys 1981, doi:10.1109/TASSP.1981.1163711.
LATHE_API AxisMap cubic_map(int64_t in, int64_t out, double step, bool align_corners);

/// The adjoint: inputs and outputs exchanged.
LATHE_API AxisMap transposed(const AxisMap& map);

}  // namespace lathe
