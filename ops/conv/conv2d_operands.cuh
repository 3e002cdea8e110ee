// Convolution as a matrix product, without ever writing the matrix: operands of
// ops/matmul_kernels/gemm_tile.cuh that read images, gradients and weights where they are, with any
// strides. For .cu files only.
//
// A pass numbers the pixels of a stack of planes (n, row, column) and the taps of a filter
// (channel, r, s). A row of an operand is a pixel and its terms are taps, or the other way round.
// Each is a Place: an offset and coordinates; the coordinates of a pixel and a tap add up. Groups
// are the batch of the product.
#pragma once

#include <cstdint>

#include "lathe/core/gpu/strided_index.cuh"
#include "lathe/core/pair.h"
#include "lathe/core/tensor.h"
#include "lathe/core/visit.h"

namespace lathe::cuda {

/// Strides of [N,C,H,W], in elements.
struct PlaneStrides {
  int64_t n, c, h, w;
  explicit PlaneStrides(const Tensor& t)
      : n(t.stride(0)), c(t.stride(1)), h(t.stride(2)), w(t.stride(3)) {}
};

/// Pixel number → (n, row, column); for fewer than 2^31 pixels.
struct Pixels {
  struct At {
    int32_t n, row, col;
  };
  Divider<uint32_t> rows, cols;

  Pixels(int64_t row_count, int64_t col_count) : rows(row_count), cols(col_count) {}
  LATHE_HD At operator()(int64_t i) const {
    const auto pixel = static_cast<uint32_t>(i);
    const uint32_t row = cols.quotient(pixel), n = rows.quotient(row);
    return {static_cast<int32_t>(n), static_cast<int32_t>(row - n * rows.divisor()),
            static_cast<int32_t>(pixel - row * cols.divisor())};
  }
};

/// Tap number → (channel, r, s). With `channels_inside` neighbouring taps are neighbouring
/// channels, as they lie in NHWC memory; else s runs fastest.
struct Taps {
  struct At {
    int32_t channel, r, s;
  };
  Divider<uint32_t> first, second;  // sizes of the two that run fastest
  bool channels_inside;

  Taps(int64_t channels, int64_t r_count, int64_t s_count, bool inside)
      : first(inside ? channels : s_count),
        second(inside ? s_count : r_count),
        channels_inside(inside) {}
  LATHE_HD At operator()(int64_t k) const {
    const auto tap = static_cast<uint32_t>(k);
    const uint32_t a = first.quotient(tap), b = second.quotient(a);
    const auto fastest = static_cast<int32_t>(tap - a * first.divisor());
    const auto middle = static_cast<int32_t>(a - b * second.divisor());
    const auto slowest = static_cast<int32_t>(b);
    if (channels_inside) return {fastest, slowest, middle};
    return {slowest, middle, fastest};
  }
};

struct Place {
  int64_t offset;
  int32_t h, w;
};

/// x[n, c, p*stride - pad + r*dilation, q*stride - pad + s*dilation], 0 outside the image: for the
/// forward pass and the weight gradient. kPixelRows: rows are output pixels and terms are taps;
/// else the other way round.
template <class T, bool kPixelRows>
struct ImageOperand {
  using C = ComputeType<T>;
  using Row = Place;
  using Term = Place;

  const T* data;
  PlaneStrides strides;
  Pixels pixels;  // of the output
  Taps taps;
  Pair stride, pad, dilation;
  int64_t height, width, group_channels;
  bool terms_first;

  LATHE_HD Place pixel(int64_t i) const {
    const Pixels::At at = pixels(i);
    const auto h = static_cast<int32_t>(at.row * stride.rows - pad.rows);
    const auto w = static_cast<int32_t>(at.col * stride.cols - pad.cols);
    return {at.n * strides.n + h * strides.h + w * strides.w, h, w};
  }
  LATHE_HD Place tap(int64_t k) const {
    const Taps::At at = taps(k);
    const auto h = static_cast<int32_t>(at.r * dilation.rows);
    const auto w = static_cast<int32_t>(at.s * dilation.cols);
    return {at.channel * strides.c + h * strides.h + w * strides.w, h, w};
  }
  LATHE_HD Place row(int64_t group, int64_t i) const {
    Place place = kPixelRows ? pixel(i) : tap(i);
    place.offset += group * group_channels * strides.c;
    return place;
  }
  LATHE_HD Place term(int64_t k) const { return kPixelRows ? tap(k) : pixel(k); }
  LATHE_HD C load(const Place& a, const Place& b) const {
    const int32_t h = a.h + b.h, w = a.w + b.w;
    if (h < 0 || h >= height || w < 0 || w >= width) return C(0);
    return C(data[a.offset + b.offset]);
  }
};

/// dy[n, k, (h + pad - r*dilation) / stride, (w + pad - s*dilation) / stride], 0 where that is not
/// an output: for the input gradient. Rows are input pixels, terms are taps (k, r, s).
template <class T>
struct GradientOperand {
  using C = ComputeType<T>;
  using Row = Place;
  using Term = Place;

  const T* data;
  PlaneStrides strides;
  Pixels pixels;  // of the input
  Taps taps;
  Divider<uint32_t> stride_rows, stride_cols;
  Pair pad, dilation;
  int64_t height, width, group_channels;  // of dy
  bool terms_first;

  LATHE_HD Place row(int64_t group, int64_t i) const {
    const Pixels::At at = pixels(i);
    return {at.n * strides.n + group * group_channels * strides.c,
            static_cast<int32_t>(at.row + pad.rows), static_cast<int32_t>(at.col + pad.cols)};
  }
  LATHE_HD Place term(int64_t k) const {
    const Taps::At at = taps(k);
    return {at.channel * strides.c, static_cast<int32_t>(at.r * dilation.rows),
            static_cast<int32_t>(at.s * dilation.cols)};
  }
  LATHE_HD C load(const Place& a, const Place& b) const {
    const int32_t h = a.h - b.h, w = a.w - b.w;
    if (h < 0 || w < 0) return C(0);
    const auto p = static_cast<int64_t>(stride_rows.quotient(static_cast<uint32_t>(h)));
    const auto q = static_cast<int64_t>(stride_cols.quotient(static_cast<uint32_t>(w)));
    if (p * stride_rows.divisor() != h || q * stride_cols.divisor() != w) return C(0);
    if (p >= height || q >= width) return C(0);
    return C(data[a.offset + b.offset + p * strides.h + q * strides.w]);
  }
};

/// dy[n, k, p, q]: for the weight gradient. Rows are output channels, terms are output pixels.
template <class T>
struct ChannelOperand {
  using C = ComputeType<T>;
  using Row = int64_t;
  using Term = int64_t;

  const T* data;
  PlaneStrides strides;
  Pixels pixels;
  int64_t group_channels;
  bool terms_first;

  LATHE_HD int64_t row(int64_t group, int64_t i) const {
    return (group * group_channels + i) * strides.c;
  }
  LATHE_HD int64_t term(int64_t k) const {
    const Pixels::At at = pixels(k);
    return at.n * strides.n + at.row * strides.h + at.col * strides.w;
  }
  LATHE_HD C load(int64_t a, int64_t b) const { return C(data[a + b]); }
};

/// w[row, tap]. Rows are the channels that the pass writes; the taps' channels are those it reads.
template <class T>
struct FilterOperand {
  using C = ComputeType<T>;
  using Row = int64_t;
  using Term = int64_t;

  const T* data;
  int64_t group_step, row_step, channel_step, r_step, s_step;
  Taps taps;
  static constexpr bool terms_first = true;

  LATHE_HD int64_t row(int64_t group, int64_t i) const { return group * group_step + i * row_step; }
  LATHE_HD int64_t term(int64_t k) const {
    const Taps::At at = taps(k);
    return at.channel * channel_step + at.r * r_step + at.s * s_step;
  }
  LATHE_HD C load(int64_t a, int64_t b) const { return C(data[a + b]); }
};

}  // namespace lathe::cuda
