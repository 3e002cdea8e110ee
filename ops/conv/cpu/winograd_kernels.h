// The inner loops of Winograd convolution, compiled once per instruction set:
// winograd_kernels_base.cpp for the build's baseline and, on x86-64, winograd_kernels_avx2.cpp and
// winograd_kernels_avx512.cpp, all from winograd_vector.h. conv2d_winograd_cpu.cpp and
// conv2d_winograd_grad_cpu.cpp call them.
#pragma once

#include <cstdint>

namespace lathe::cpu {

/// A matrix for each of the `positions` of a transformed tile: element (i, j) of position s at
/// data[s * position_step + i * row_step + j]. What i and j are is said where it is used.
struct WinogradMatrices {
  float* data;
  int64_t position_step, row_step;
};

/// Where a filter's taps lie: w[out, in, r, s] at data[out * out_step + in * in_step + tap[3*r+s]].
struct WinogradFilters {
  const float* data;
  int64_t out_step, in_step;
  int64_t tap[9];
};

/// A product of matrices of one position: c[rows, cols] = a[rows, depth] * b[depth, cols], or +=.
/// Element (i, j) of a at a[i * a_row + j * a_col]; b and c have rows of neighbouring elements.
/// Rows are computed in groups, so a and c have memory for rows up to a multiple of kWinogradRows,
/// unless rows_only says that they have not; the last rows then take longer. Columns are computed
/// in whole vectors, so b and c have memory for columns up to a multiple of `lanes`.
struct WinogradProduct {
  float* c;
  const float *a, *b;
  int64_t c_row, a_row, a_col, b_row;
  int64_t rows, depth, cols;
  bool add;
  const float* fetch;  // what is read or written next, to be brought into the second-level cache
  int64_t fetch_floats;
  bool rows_only = false;
};
inline constexpr int64_t kWinogradRows = 24;

/// What is done to a tile of outputs before it is written, in this order.
struct WinogradEpilogue {
  const float* bias;             // [channels] or null
  const float* const* residual;  // a table like that of y, or null
  bool relu;                     // NaN passes through
};

/// The loops for one kind of tile. Tensors are read and written by tables of pointers, one per
/// pixel of a tile, each to the first of `channels` neighbouring channels. Every transform computes
/// whole vectors, so its matrices have memory for channels up to a multiple of `lanes`; tensors are
/// touched at their channels only.
///
/// Position (i, j) of a tile is multiplied by filter (min(i, filters - 1), min(j, filters - 1)):
/// with stride 2 several positions share the last one.
struct WinogradKernels {
  int64_t lanes;
  // Along each side of a tile: pixels read, pixels written, positions, filters of them, and pixels
  // from the first that is read to the first that the next tile reads.
  int64_t inputs, outputs, positions, filters, step;

  /// v[., channels] of one tile = B^T d B, d [inputs, inputs] pixels. v's data points at the tile's
  /// row.
  void (*transform_input)(const WinogradMatrices& v, const float* const* d, int64_t channels);
  /// v[., channels] of one tile = A dy A^T, dy [outputs, outputs] pixels.
  void (*transform_output_grad)(const WinogradMatrices& v, const float* const* dy,
                                int64_t channels);
  /// y [outputs, outputs] pixels = A^T m A, then the epilogue.
  void (*transform_output)(float* const* y, const WinogradMatrices& m, int64_t channels,
                           const WinogradEpilogue& then);
  /// u[in, out] = G g G^T of filters [outs, ins].
  void (*transform_filters)(const WinogradMatrices& u, const WinogradFilters& g, int64_t ins,
                            int64_t outs);
  /// dw[out, tap, in] = G^T p G of p[out, in], at dw + tap * tap_step + out * out_step + in.
  void (*transform_filters_grad)(float* dw, int64_t tap_step, int64_t out_step,
                                 const WinogradMatrices& p, int64_t outs, int64_t ins);
  void (*product)(const WinogradProduct& p);
  /// sums[c] += y - shift[c] and squares[c] += (y - shift[c])^2 over `count` pixels, each given by
  /// its first channel.
  void (*moments)(float* sums, float* squares, const float* shift, const float* const* y,
                  int64_t count, int64_t channels);
};

/// The tiles of one instruction set.
struct WinogradKernelSet {
  WinogradKernels f4, f2;             // stride 1: F(4x4,3x3) and F(2x2,3x3)
  WinogradKernels strided;            // stride 2: 4x4 outputs
  WinogradKernels strided_transpose;  // the input gradient of stride 2: 8x8 pixels of dx from dy
};

WinogradKernelSet winograd_kernels_base();
WinogradKernelSet winograd_kernels_avx2();
WinogradKernelSet winograd_kernels_avx512();

}  // namespace lathe::cpu
