// Bilinear and nearest resizing on the CPU; the contract is in resize.h.
//
// The first pass goes along the rows. There the weighted pixels are adjacent and the weights change
// from pixel to pixel. So 16 rows are turned into columns (16x16 tiles, transposed in registers),
// weighted 16 at a time with one weight for all, and turned back. The second pass adds whole rows.
// Both use loops of constant length, which the compiler turns into vector instructions.
#include "lathe/data/transforms/resize.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "lathe/data/transforms/resize_axis.h"
#include "lathe/data/transforms/resize_weights.h"

namespace lathe::data {
namespace {

constexpr int64_t kLanes = 16;   // rows that are weighted together
constexpr int64_t kAtOnce = 64;  // of a row, worked on at once

// --- along the rows ------------------------------------------------------------------------------

using Lanes = uint8_t __attribute__((vector_size(kLanes)));

struct Tile {
  Lanes row[kLanes];
};

/// Interleaves the halves: rows 2k and 2k+1 of the result are rows k and k+8.
inline __attribute__((always_inline)) Tile interleaved(const Tile& a) {
  Tile b;
  for (int k = 0; k < 8; ++k) {
    const Lanes x = a.row[k], y = a.row[k + 8];
    b.row[2 * k] =
        __builtin_shufflevector(x, y, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    b.row[2 * k + 1] =
        __builtin_shufflevector(x, y, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
  }
  return b;
}

/// Interleaving four times transposes the tile.
inline __attribute__((always_inline)) Tile transposed(const Tile& a) {
  return interleaved(interleaved(interleaved(interleaved(a))));
}

inline Lanes load_lanes(const uint8_t* from) {
  Lanes v;
  std::memcpy(&v, from, kLanes);
  return v;
}

inline void store(uint8_t* to, const Lanes& v) { std::memcpy(to, &v, kLanes); }

/// Turns 16 rows into columns [pixels][16]. The last tile overlaps the one before.
void rows_to_columns(const uint8_t* const (&rows)[kLanes], int64_t pixels, uint8_t* columns) {
  for (int64_t x = 0; x < pixels; x += kLanes) {
    const int64_t at = std::max<int64_t>(0, std::min(x, pixels - kLanes));
    const int64_t count = std::min(pixels, kLanes);
    Tile tile;
    for (int64_t k = 0; k < kLanes; ++k) {
      if (count == kLanes) [[likely]] {
        tile.row[k] = load_lanes(rows[k] + at);
      } else {
        uint8_t narrow[kLanes] = {};
        std::memcpy(narrow, rows[k], static_cast<size_t>(count));
        tile.row[k] = load_lanes(narrow);
      }
    }
    tile = transposed(tile);
    for (int64_t k = 0; k < count; ++k) store(columns + (at + k) * kLanes, tile.row[k]);
  }
}

/// The reverse. The rows are adjacent in memory; `count` of the 16 are written.
void columns_to_rows(const uint8_t* columns, int64_t pixels, uint8_t* rows, int64_t count) {
  for (int64_t x = 0; x < pixels; x += kLanes) {
    const int64_t at = std::max<int64_t>(0, std::min(x, pixels - kLanes));
    const int64_t length = std::min(pixels, kLanes);
    Tile tile = {};
    for (int64_t k = 0; k < length; ++k) tile.row[k] = load_lanes(columns + (at + k) * kLanes);
    tile = transposed(tile);
    for (int64_t k = 0; k < count; ++k) {
      if (length == kLanes) [[likely]] {
        store(rows + k * pixels + at, tile.row[k]);
      } else {
        std::memcpy(rows + k * pixels, &tile.row[k], static_cast<size_t>(length));
      }
    }
  }
}

LATHE_CLONES void weigh_columns(uint8_t* __restrict__ out, const uint8_t* __restrict__ in,
                                const ResizeAxis& axis, bool flipped) {
  for (int64_t x = 0; x < axis.out; ++x) {
    uint8_t* to = out + (flipped ? axis.out - 1 - x : x) * kLanes;
    const uint8_t* from = in + int64_t{axis.first[static_cast<size_t>(x)]} * kLanes;
    const int32_t* weights = axis.weights.data() + x * axis.stride;
    const int64_t count = axis.count[static_cast<size_t>(x)];
    int32_t sum[kLanes] = {};
    for (int64_t t = 0; t < count; ++t)
      for (int64_t k = 0; k < kLanes; ++k) sum[k] += from[t * kLanes + k] * weights[t];
    for (int64_t k = 0; k < kLanes; ++k) to[k] = weighted_byte(sum[k]);
  }
}

/// `in` resized along its rows to axis.out pixels, dense.
void resize_rows(const ImageView& in, const ResizeAxis& axis, bool flipped, uint8_t* out) {
  thread_local std::vector<uint8_t> columns, weighed;
  columns.resize(static_cast<size_t>(in.width * kLanes));
  weighed.resize(static_cast<size_t>(axis.out * kLanes));
  const int64_t total = in.channels * in.height;
  for (int64_t first = 0; first < total; first += kLanes) {
    const uint8_t* rows[kLanes];
    for (int64_t k = 0; k < kLanes; ++k) {
      const int64_t r = std::min(first + k, total - 1);
      rows[k] = in.row(r / in.height, r % in.height);
    }
    rows_to_columns(rows, in.width, columns.data());
    weigh_columns(weighed.data(), columns.data(), axis, flipped);
    columns_to_rows(weighed.data(), axis.out, out + first * axis.out,
                    std::min(kLanes, total - first));
  }
}

// --- along the columns ---------------------------------------------------------------------------

/// Works on 64 pixels at once; n is at least 64, and the last 64 overlap those before. With one
/// weight per lane and one step per loop the compiler finds the instruction for a rounded 16-bit
/// product.
LATHE_CLONES void weigh_two_short(uint8_t* __restrict__ out, const uint8_t* __restrict__ a,
                                  const uint8_t* __restrict__ b,
                                  const int16_t* __restrict__ weights, int64_t n) {
  for (int64_t x = 0; x < n; x += kAtOnce) {
    const int64_t at = std::min(x, n - kAtOnce);
    int16_t difference[kAtOnce], product[kAtOnce];
    for (int64_t k = 0; k < kAtOnce; ++k)
      difference[k] = static_cast<int16_t>(a[at + k] - b[at + k]);
    for (int64_t k = 0; k < kAtOnce; ++k) product[k] = short_product(difference[k], weights[k]);
    for (int64_t k = 0; k < kAtOnce; ++k)
      out[at + k] = static_cast<uint8_t>(b[at + k] + product[k]);
  }
}

/// a * wa + b * wb, where wa + wb = 2^22 + extra, by one product: b + ((a - b) * wa …).
LATHE_CLONES void weigh_two(uint8_t* __restrict__ out, const uint8_t* __restrict__ a,
                            const uint8_t* __restrict__ b, int32_t wa, int32_t extra, int64_t n) {
  for (int64_t x = 0; x < n; ++x) {
    const int32_t sum = (a[x] - b[x]) * wa + b[x] * extra + kWeightHalf;
    out[x] = static_cast<uint8_t>(b[x] + (sum >> kWeightBits));
  }
}

LATHE_CLONES void weigh_rows(uint8_t* __restrict__ out, const uint8_t* __restrict__ in,
                             int64_t row_bytes, const int32_t* weights, int64_t count, int64_t n) {
  for (int64_t x = 0; x < n; x += kAtOnce) {
    int32_t sum[kAtOnce] = {};
    const int64_t length = std::min(kAtOnce, n - x);
    for (int64_t t = 0; t < count; ++t) {
      const uint8_t* from = in + t * row_bytes + x;
      const int32_t w = weights[t];
      if (length == kAtOnce) [[likely]] {
        for (int64_t k = 0; k < kAtOnce; ++k) sum[k] += from[k] * w;
      } else {
        for (int64_t k = 0; k < length; ++k) sum[k] += from[k] * w;
      }
    }
    for (int64_t k = 0; k < length; ++k) out[x + k] = weighted_byte(sum[k]);
  }
}

void resize_columns(const ImageView& in, const ResizeAxis& axis, uint8_t* out) {
  int16_t lanes[kAtOnce];
  for (int64_t c = 0; c < in.channels; ++c) {
    for (int64_t y = 0; y < axis.out; ++y, out += in.width) {
      const uint8_t* from = in.row(c, axis.first[static_cast<size_t>(y)]);
      const int32_t* weights = axis.weights.data() + y * axis.stride;
      const int32_t count = axis.count[static_cast<size_t>(y)];
      if (count == 1) {
        std::memcpy(out, from, static_cast<size_t>(in.width));
      } else if (count == 2) {
        const uint8_t* next = from + in.row_bytes;
        const int16_t weight =
            axis.short_weights.empty() ? int16_t{0} : axis.short_weights[static_cast<size_t>(y)];
        if (weight != 0 && in.width >= kAtOnce) {
          std::fill_n(lanes, kAtOnce, weight);
          weigh_two_short(out, from, next, lanes, in.width);
        } else {
          weigh_two(out, from, next, weights[0], weights[0] + weights[1] - kWeightOne, in.width);
        }
      } else {
        weigh_rows(out, from, in.row_bytes, weights, count, in.width);
      }
    }
  }
}

void resize_bilinear(const ImageView& in, const ResizeTo& to, uint8_t* out) {
  thread_local ResizeAxisCache of_rows, of_columns;
  thread_local std::vector<uint8_t> between;
  const bool same_width = in.width == to.width && !to.flipped, same_height = in.height == to.height;
  ImageView view = in;
  if (!same_width) {
    const ImageSpec spec{in.channels, in.height, to.width};
    uint8_t* rows = out;
    if (!same_height) {
      between.resize(static_cast<size_t>(spec.pixels()));
      rows = between.data();
    }
    resize_rows(in, of_rows.get(in.width, to.width), to.flipped, rows);
    if (same_height) return;
    view = ImageView::of(rows, spec);
  }
  resize_columns(view, of_columns.get(in.height, to.height), out);  // weights of 1 copy rows
}

/// nearest_pixel() for every result pixel.
std::vector<int32_t> nearest_pixels(int64_t in, int64_t out) {
  std::vector<int32_t> pixels;
  NearestPixels from = NearestPixels::of(static_cast<int32_t>(in), static_cast<int32_t>(out));
  for (int64_t x = 0; x < out; ++x, from.advance()) pixels.push_back(from.pixel());
  return pixels;
}

void resize_nearest(const ImageView& in, const ResizeTo& to, uint8_t* out) {
  const std::vector<int32_t> rows = nearest_pixels(in.height, to.height);
  std::vector<int32_t> columns = nearest_pixels(in.width, to.width);
  if (to.flipped) std::reverse(columns.begin(), columns.end());
  for (int64_t c = 0; c < in.channels; ++c) {
    for (const int32_t y : rows) {
      const uint8_t* from = in.row(c, y);
      for (const int32_t x : columns) *out++ = from[x];
    }
  }
}

}  // namespace

void resize_image(const ImageView& in, const ResizeTo& to, uint8_t* out) {
  if (to.interpolation == Interpolation::kNearest) return resize_nearest(in, to, out);
  resize_bilinear(in, to, out);
}

}  // namespace lathe::data
