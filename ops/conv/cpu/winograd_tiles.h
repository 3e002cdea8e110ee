// What Winograd's passes stand on: the tiles of a batch of images, and memory for their transforms.
// winograd_tiles.cpp: what is read; conv2d_winograd_cpu.cpp: outputs and the input's gradient;
// conv2d_winograd_grad_cpu.cpp: the filters' gradient; winograd_kernels.h: the loops inside.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "lathe/core/ceil_div.h"
#include "lathe/core/pair.h"
#include "lathe/core/tensor.h"
#include "lathe/ops/conv/cpu/conv2d_winograd_cpu.h"
#include "lathe/ops/conv/cpu/winograd_kernels.h"
#include "lathe/ops/conv/cpu/winograd_split.h"

namespace lathe::cpu::winograd {

inline constexpr int64_t kMaxPixels = 81;  // of a tile

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

/// One pointer for each pixel of a tile. It is filled in place: copies would take as long as that.
template <class T>
using PixelTable = std::array<T*, kMaxPixels>;

/// A tile: its image, and where it lies in the image, in tiles.
struct TilePlace {
  int64_t image, row, col;
};

/// Memory that products bring into the second-level cache while they compute, each a share: what
/// the transforms behind them read or write. The products leave the memory idle, the transforms
/// wait for it.
struct FetchedMemory {
  const float* data = nullptr;
  int64_t floats = 0;

  /// Lets product `index` of `count` fetch its share. Without memory it fetches what it would.
  void share(WinogradProduct& p, int64_t index, int64_t count) const {
    if (floats == 0) return;
    p.fetch = data + floats * index / count;
    p.fetch_floats = floats / count;
  }
};

/// The tiles of a batch, in the order of the outputs.
struct Tiles {
  const WinogradKernels& kernels;
  Pair pad, lead;        // pixels of the first tile before the image: of its inputs, its outputs
  int64_t down, across;  // tiles per image
  int64_t count;         // of all images

  /// Tiles for outputs of `rows` x `cols` pixels.
  Tiles(const WinogradKernels& k, int64_t images, int64_t rows, int64_t cols, Pair input_pad,
        Pair output_lead = 0)
      : kernels(k),
        pad(input_pad),
        lead(output_lead),
        down(ceil_div(rows + lead.rows, k.outputs)),
        across(ceil_div(cols + lead.cols, k.outputs)),
        count(images * down * across) {}

  int64_t positions() const { return kernels.positions * kernels.positions; }
  int64_t filters() const { return kernels.filters * kernels.filters; }

  /// Calls f(position, filter) for each position, those of a filter one after another.
  template <class F>
  void for_positions(F f) const {
    const int64_t filters = kernels.filters, positions = kernels.positions;
    const auto end = [&](int64_t filter) { return filter + 1 < filters ? filter + 1 : positions; };
    for (int64_t filter = 0; filter < filters * filters; ++filter) {
      const int64_t row = filter / filters, col = filter % filters;
      for (int64_t i = row; i < end(row); ++i) {
        for (int64_t j = col; j < end(col); ++j) f(i * positions + j, filter);
      }
    }
  }

  /// The place of tile `index`.
  TilePlace place(int64_t index) const {
    return {index / (down * across), index / across % down, index % across};
  }
  /// The next tile's. It divides nothing, unlike place().
  void advance(TilePlace& p) const {
    if (++p.col < across) return;
    p.col = 0;
    if (++p.row < down) return;
    p.row = 0;
    ++p.image;
  }

  /// The rows of pixels of the tiles [first, first + n), which are `step` pixels apart. Neighbours'
  /// pixels that they read, too, may be missing.
  template <class T>
  FetchedMemory rows_of(const Images<T>& images, int64_t first, int64_t n, int64_t step) const {
    const int64_t last = std::min(first + n, count) - 1;
    if (first > last) return {};
    const auto row = [&](const TilePlace& p, int64_t below) {  // of all images
      return p.image * images.rows + std::min((p.row + below) * step, images.rows);
    };
    const int64_t begin = row(place(first), 0), floats = images.cols * images.channels;
    return {images.data + begin * floats, (row(place(last), 1) - begin) * floats};
  }

  /// table[i * side + j] = the first channel of a pixel of a tile's square with `side` pixels, or
  /// `outside`. Tiles are `step` pixels apart. Returns true if all of the square is inside.
  template <class T>
  bool pixels(PixelTable<T>& table, const Images<T>& images, const TilePlace& tile, int64_t channel,
              int64_t side, int64_t step, Pair before, T* outside) const {
    const int64_t row = tile.row * step - before.rows, col = tile.col * step - before.cols;
    // Those of the square that are inside the image.
    const int64_t top = std::max(-row, int64_t{0}), bottom = std::min(images.rows - row, side);
    const int64_t left = std::max(-col, int64_t{0}), right = std::min(images.cols - col, side);
    const bool is_inside = std::max(top, left) == 0 && std::min(bottom, right) == side;
    if (!is_inside) std::fill_n(table.data(), side * side, outside);
    for (int64_t i = top; i < bottom && left < right; ++i) {
      T* const first = images.pixel(tile.image, row + i, col + left, channel);
      for (int64_t j = left; j < right; ++j) {
        table[i * side + j] = first + (j - left) * images.channels;
      }
    }
    return is_inside;
  }
  void inputs(PixelTable<const float>& table, const Images<const float>& x, const TilePlace& tile,
              int64_t channel) const {
    pixels(table, x, tile, channel, kernels.inputs, kernels.step, pad,
           static_cast<const float*>(kZeros));
  }
  template <class T>
  bool outputs(PixelTable<T>& table, const Images<T>& y, const TilePlace& tile, int64_t channel,
               T* outside) const {
    return pixels(table, y, tile, channel, kernels.outputs, kernels.outputs, lead, outside);
  }
};

/// The inputs of tiles as the transforms read them: x's own pixels, or normalised copies.
class InputReader {
 public:
  InputReader(const Tiles& tiles, const Images<const float>& x, const PixelNorm& before)
      : tiles_(tiles), x_(x), before_(before) {}

  /// As Tiles::inputs, for the `channels` from `channel` on. Good until the next call.
  const PixelTable<const float>& tile(const TilePlace& place, int64_t channel, int64_t channels);

 private:
  const Tiles& tiles_;
  const Images<const float> x_;
  const PixelNorm before_;
  PixelTable<const float> pixels_;
  alignas(64) std::array<float, kMaxPixels * kBlock> copies_;
};

/// The tiles of y, from x.
Tiles tiles_of(const Conv2dGeometry& g, WinogradTile tile);
/// The tiles of dx, from dy.
Tiles transposed_tiles_of(const Conv2dGeometry& g, WinogradTile tile);

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
