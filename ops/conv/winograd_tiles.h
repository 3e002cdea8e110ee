// What Winograd's passes stand on: the tiles of a batch of images, and memory for their transforms.
// conv2d_winograd_cpu.cpp: outputs and the input's gradient; conv2d_winograd_grad_cpu.cpp: the
// filters' gradient; winograd_kernels.h: the loops inside.
#pragma once

#include <array>
#include <cstdint>

#include "lathe/core/ceil_div.h"
#include "lathe/core/pair.h"
#include "lathe/core/tensor.h"
#include "lathe/ops/conv/conv2d_winograd_cpu.h"
#include "lathe/ops/conv/winograd_kernels.h"

namespace lathe::cpu::winograd {

inline constexpr int64_t kMaxPositions = 36;
inline constexpr int64_t kBlock = 64;  // channels that are multiplied at a time

/// The best kernels for this processor.
const WinogradKernelSet& kernel_set();

/// A batch of NHWC images.
template <class T>
struct Images {
  T* data;
  int64_t rows, cols, channels;

  T* pixel(int64_t image, int64_t row, int64_t col, int64_t channel) const {
    return data + ((image * rows + row) * cols + col) * channels + channel;
  }
};

/// What lies outside the images: reads as 0, takes what nobody reads.
alignas(64) inline constexpr float kZeros[kBlock] = {};

/// The tiles of a batch, in the order of the outputs.
struct Tiles {
  const WinogradKernels& kernels;
  int64_t out, edge;     // outputs and inputs along each side of a tile
  int64_t down, across;  // tiles per image
  int64_t count;         // of all images
  Pair pad;

  Tiles(WinogradTile tile, int64_t images, int64_t rows, int64_t cols, Pair padding)
      : kernels(tile == WinogradTile::k4 ? kernel_set().f4 : kernel_set().f2),
        out(tile == WinogradTile::k4 ? 4 : 2),
        edge(out + 2),
        down(ceil_div(rows, out)),
        across(ceil_div(cols, out)),
        count(images * down * across),
        pad(padding) {}

  int64_t positions() const { return edge * edge; }

  /// One pointer for each pixel of a square of tile `index` with `side` pixels: to its first
  /// channel, or to `outside`.
  template <class T>
  std::array<T*, kMaxPositions> pixels(const Images<T>& images, int64_t index, int64_t channel,
                                       int64_t side, Pair before, T* outside) const {
    std::array<T*, kMaxPositions> table;
    const int64_t image = index / (down * across);
    const int64_t row = index / across % down * out - before.rows;
    const int64_t col = index % across * out - before.cols;
    T** to = table.data();
    for (int64_t i = row; i < row + side; ++i) {
      const bool row_inside = i >= 0 && i < images.rows;
      for (int64_t j = col; j < col + side; ++j) {
        const bool inside = row_inside && j >= 0 && j < images.cols;
        *to++ = inside ? images.pixel(image, i, j, channel) : outside;
      }
    }
    return table;
  }
  std::array<const float*, kMaxPositions> inputs(const Images<const float>& x, int64_t index,
                                                 int64_t channel) const {
    return pixels(x, index, channel, edge, pad, static_cast<const float*>(kZeros));
  }
  template <class T>
  std::array<T*, kMaxPositions> outputs(const Images<T>& y, int64_t index, int64_t channel,
                                        T* outside) const {
    return pixels(y, index, channel, out, 0, outside);
  }
};

/// Matrices of `rows` rows and `cols` columns for each position, in memory that the caller has.
struct MatrixSpace {
  int64_t row_step, position_step, floats;

  /// A row more than whole cache lines apart, positions fall into different sets of the cache.
  MatrixSpace(int64_t positions, int64_t rows, int64_t cols, int64_t lanes)
      : row_step(round_up(cols, lanes)),
        position_step(round_up(rows, kWinogradRows) * row_step + 16),
        floats(positions * position_step + kWinogradRows) {
    floats = round_up(floats, int64_t{16});
  }
  WinogradMatrices at(float* data) const { return {data, position_step, row_step}; }
};

inline WinogradMatrices row_of(WinogradMatrices m, int64_t row) {
  m.data += row * m.row_step;
  return m;
}

/// Memory for `floats` numbers until the Tensor is gone.
Tensor scratch(int64_t floats);

/// The filters of w [K,C,3,3] as those of y from x.
WinogradFilters filters_of(const Tensor& w);

}  // namespace lathe::cpu::winograd
