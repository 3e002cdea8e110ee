// From a thread's linear index to a pixel of a plane, in row-major and in NHWC order: for the
// kernels of pooling and resampling. For .cu files only.
#pragma once

#include <type_traits>

#include "lathe/core/gpu/packet.cuh"
#include "lathe/core/gpu/strided_index.cuh"
#include "lathe/core/tensor.h"
#include "lathe/core/visit.h"

namespace lathe::cuda {

/// Planes of rows x cols pixels, each of `packets` packets. In row-major order a plane is one
/// channel and a pixel one number; in NHWC a plane is a whole sample and a pixel holds all its
/// channels.
template <class Index>
struct Planes {
  Divider<Index> packets, cols, rows;
  Index total;  // packets of all planes
};

struct Pixel {
  int64_t plane;
  int32_t row, col, packet;
};

template <class Index>
LATHE_HD Pixel pixel_of(const Planes<Index>& planes, Index i) {
  const Index pixel = planes.packets.quotient(i), row = planes.cols.quotient(pixel);
  const Index plane = planes.rows.quotient(row);
  return {static_cast<int64_t>(plane), static_cast<int32_t>(row - plane * planes.rows.divisor()),
          static_cast<int32_t>(pixel - row * planes.cols.divisor()),
          static_cast<int32_t>(i - pixel * planes.packets.divisor())};
}

/// Numbers per pixel of two dense tensors [N,C,…] in one order: 1 in row-major order, C in NHWC.
inline int64_t numbers_per_pixel(const Tensor& a, const Tensor& b) {
  return a.is_contiguous() && b.is_contiguous() ? 1 : a.dim(1);
}

/// The planes of `t` with pixels of `inner` numbers, taken V at a time.
template <class Index>
Planes<Index> planes_of(const Tensor& t, int64_t inner, int V) {
  return {Divider<Index>(inner / V), Divider<Index>(t.dim(3)), Divider<Index>(t.dim(2)),
          static_cast<Index>(t.numel() / V)};
}

/// Calls f(integral_constant V, TypeTag<Index>). V is the largest packet that divides pixels of
/// `inner` numbers and fits the alignment of the addresses (null: not used); Index is the narrowest
/// type that counts n elements.
template <class T, class F>
void visit_packets(int64_t inner, const void* a, const void* b, const void* places, int64_t n,
                   F&& f) {
  constexpr int V = 16 / sizeof(T);
  const bool whole = inner % V == 0 && holds_packets<V>(static_cast<const T*>(a)) &&
                     holds_packets<V>(static_cast<const T*>(b)) &&
                     holds_packets<V>(static_cast<const int32_t*>(places));
  const auto with = [&](auto width) {
    if (n < (int64_t{1} << 31)) return f(width, TypeTag<uint32_t>{});
    f(width, TypeTag<uint64_t>{});
  };
  if (whole) return with(std::integral_constant<int, V>{});
  with(std::integral_constant<int, 1>{});
}

}  // namespace lathe::cuda
