// copy_values and fill_values, and their loops on the CPU. CUDA kernels: core/gpu/copy_cuda.cu;
// copies between devices: core/gpu/transfer_cuda.cpp.
#include "lathe/core/copy.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "lathe/core/ceil_div.h"
#include "lathe/core/convert.h"
#include "lathe/core/cuda_backend.h"
#include "lathe/core/dispatch.h"
#include "lathe/core/loop_nest.h"
#include "lathe/core/row_kernel.h"
#include "lathe/core/thread_pool.h"

namespace lathe {

namespace {

constexpr int64_t kCacheLine = 64;          // bytes
constexpr int64_t kSmallReordering = 1024;  // elements: below, lines stay in the cache

template <size_t bytes>
using Word = std::conditional_t<
    bytes == 1, uint8_t,
    std::conditional_t<bytes == 2, uint16_t, std::conditional_t<bytes == 4, uint32_t, uint64_t>>>;

template <class To, class From>
LATHE_CLONES void convert_dense(To* __restrict__ out, const From* __restrict__ in, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = convert<To>(in[i]);
}

/// out[i] = in[n - 1 - i].
template <class T>
LATHE_CLONES void reverse(T* __restrict__ out, const T* __restrict__ in, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = in[n - 1 - i];
}

template <class T>
constexpr bool kIsHalf = !std::is_same_v<T, ComputeType<T>>;

template <class To, class From>
void convert_row(const StridedRow& row, TypeTag<To> /*dst*/) {
  if (row.dense<To>(0) && row.dense<From>(1)) {
    To* out = row.at<To>(0);
    const From* in = row.at<From>(1);
    if constexpr (std::is_same_v<To, From>) {
      std::memcpy(out, in, sizeof(To) * static_cast<size_t>(row.size));
    } else if constexpr ((kIsHalf<To> && std::is_same_v<From, float>) ||
                         (kIsHalf<From> && std::is_same_v<To, float>)) {
      convert(out, in, row.size);
    } else if constexpr (std::is_floating_point_v<To> && std::is_floating_point_v<From>) {
      convert_dense(out, in, row.size);
    } else {
      for (int64_t i = 0; i < row.size; ++i) out[i] = convert<To>(in[i]);
    }
    return;
  }
  if (row.dense<To>(0) && row.step[1] == -static_cast<int64_t>(sizeof(From))) {  // reversed
    if constexpr (std::is_same_v<To, From>) {
      using T = Word<sizeof(To)>;
      return reverse(row.at<T>(0), row.at<T>(1) - (row.size - 1), row.size);
    }
  }
  char* out = row.data[0];
  const char* in = row.data[1];
  for (int64_t i = 0; i < row.size; ++i, out += row.step[0], in += row.step[1]) {
    *reinterpret_cast<To*>(out) = convert<To>(*reinterpret_cast<const From*>(in));
  }
}

using FourWords = uint32_t __attribute__((vector_size(16)));

/// transpose_tile() of 16 x 16 elements of 4 bytes, by blocks of 4 x 4.
[[gnu::always_inline]] inline void transpose_whole_tile(uint32_t* out, const uint32_t* in,
                                                        int64_t out_step, int64_t in_step) {
  constexpr int kEdge = 16;
  FourWords tile[kEdge][kEdge / 4];  // row r; its elements 4 b to 4 b + 3
  for (int64_t r = 0; r < kEdge; ++r) std::memcpy(tile[r], in + r * in_step, sizeof tile[r]);
  for (int b = 0; b < kEdge / 4; ++b) {
    FourWords column[4][kEdge / 4];
    for (int r = 0; r < kEdge; r += 4) {
      const FourWords w = tile[r][b], x = tile[r + 1][b], y = tile[r + 2][b], z = tile[r + 3][b];
      const FourWords low = __builtin_shufflevector(w, x, 0, 4, 1, 5);
      const FourWords high = __builtin_shufflevector(w, x, 2, 6, 3, 7);
      const FourWords low2 = __builtin_shufflevector(y, z, 0, 4, 1, 5);
      const FourWords high2 = __builtin_shufflevector(y, z, 2, 6, 3, 7);
      column[0][r / 4] = __builtin_shufflevector(low, low2, 0, 1, 4, 5);
      column[1][r / 4] = __builtin_shufflevector(low, low2, 2, 3, 6, 7);
      column[2][r / 4] = __builtin_shufflevector(high, high2, 0, 1, 4, 5);
      column[3][r / 4] = __builtin_shufflevector(high, high2, 2, 3, 6, 7);
    }
    for (int c = 0; c < 4; ++c) {
      std::memcpy(out + (b * 4 + c) * out_step, column[c], sizeof column[c]);
    }
  }
}

/// out[c * out_step + r] = in[r * in_step + c] for one tile, at most a cache line wide both ways.
/// It passes through a buffer, so that each line of memory is read or written as a whole: lines
/// that are a power of 2 apart would push one another out of the cache. The tile below is fetched
/// meanwhile, because each of its rows may be in another page.
template <class T>
LATHE_CLONES void transpose_tile(T* out, const T* in, int64_t rows, int64_t columns,
                                 int64_t out_step, int64_t in_step) {
  constexpr int64_t kEdge = kCacheLine / static_cast<int64_t>(sizeof(T));
  for (int64_t r = kEdge; r < 2 * kEdge; ++r) {  // which may lie outside src
    const auto next = static_cast<uintptr_t>(r * in_step) * sizeof(T);
    __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(in) + next));
  }
  if constexpr (sizeof(T) == 4) {
    if (rows == kEdge && columns == kEdge) return transpose_whole_tile(out, in, out_step, in_step);
  }
  T tile[kEdge][kEdge + 1];
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) tile[c][r] = in[r * in_step + c];
  }
  for (int64_t c = 0; c < columns; ++c) std::copy_n(tile[c], rows, out + c * out_step);
}

/// The nest without dimension 0, and without `other`.
LoopNest without_inner(const LoopNest& nest, int other = 0) {
  LoopNest others;
  others.operands = nest.operands;
  for (int d = 1; d < nest.ndim; ++d) {
    if (d != other) others.push(nest.dims[d]);
  }
  if (others.ndim == 0) others.push(LoopDim{1, {}});
  return others;
}

/// Copies by tiles: dst is dense along dimension 0, src along dimension `across`.
template <class T>
void transpose(T* dst, const T* src, const LoopNest& nest, int across) {
  constexpr int64_t kEdge = kCacheLine / static_cast<int64_t>(sizeof(T));
  const LoopDim &row = nest.dims[0], &column = nest.dims[across];
  const LoopNest others = without_inner(nest, across);
  const int64_t bands = ceil_div(column.size, kEdge);
  const int64_t grain = std::max<int64_t>(1, kParallelGrain / (kEdge * row.size));
  parallel_for(others.numel() * bands, grain, [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      const NestWalk<2> at(others, item / bands);
      const int64_t first = item % bands * kEdge, columns = std::min(kEdge, column.size - first);
      T* to = dst + at.offset[0] + first * column.step[0];
      const T* from = src + at.offset[1] + first;
      for (int64_t r = 0; r < row.size; r += kEdge) {
        transpose_tile(to + r, from + r * row.step[1], std::min(kEdge, row.size - r), columns,
                       column.step[0], row.step[1]);
      }
    }
  });
}

/// out[j * K + k] = in[j + k * apart].
template <int K, class T>
LATHE_CLONES void interleave_row(T* __restrict__ out, const T* __restrict__ in, int64_t apart,
                                 int64_t n) {
  for (int64_t j = 0; j < n; ++j) {
    for (int k = 0; k < K; ++k) out[j * K + k] = in[j + k * apart];
  }
}

/// Copies rows of src to every K-th element of dst: K times the same row, or K rows interleaved.
template <int K, class T>
void interleave(T* dst, const T* src, const LoopNest& nest) {
  const LoopNest rows = without_inner(nest);
  const int64_t apart = nest.dims[0].step[1];
  parallel_for(rows.numel(), kParallelGrain / K, [&](int64_t begin, int64_t end) {
    each_row<2>(rows, begin, end, [&](const int64_t* offset, int64_t first, int64_t n) {
      interleave_row<K>(dst + offset[0] + first * K, src + offset[1] + first, apart, n);
    });
  });
}

/// Copies elements of T's size, if their order changes in a way that there is a kernel for. Returns
/// false, and does nothing, unless it does.
template <class T>
bool reorder(const Tensor& dst_tensor, const Tensor& src_tensor) {
  const Shape& shape = dst_tensor.shape();
  const StridedOperand operands[] = {{nullptr, 1, dst_tensor.strides()},
                                     {nullptr, 1, broadcast_strides(src_tensor, shape)}};
  const LoopNest nest = make_nest(shape, operands, 2, LoopOrder::kDensestInside);
  T* const dst = static_cast<T*>(dst_tensor.raw_data());
  const T* const src = static_cast<const T*>(src_tensor.raw_data());
  if (const int across = dimension_across(nest)) {
    transpose(dst, src, nest, across);
    return true;
  }
  const LoopDim &inner = nest.dims[0], &outer = nest.dims[1];
  if (nest.ndim < 2 || inner.step[0] != 1 || outer.step[0] != inner.size || outer.step[1] != 1)
    return false;
  switch (inner.size) {
    case 2: interleave<2>(dst, src, nest); return true;
    case 3: interleave<3>(dst, src, nest); return true;
    case 4: interleave<4>(dst, src, nest); return true;
    default: return false;
  }
}

bool reorder(const Tensor& dst, const Tensor& src) {
  if (dst.dtype() != src.dtype() || dst.numel() < kSmallReordering ||
      dst.strides() == src.strides())
    return false;
  switch (size_of(dst.dtype())) {
    case 1: return reorder<uint8_t>(dst, src);
    case 2: return reorder<uint16_t>(dst, src);
    case 4: return reorder<uint32_t>(dst, src);
    default: return reorder<uint64_t>(dst, src);
  }
}

}  // namespace

RowKernel cpu::copy_kernel(DType dst, DType src) {
  RowKernel kernel;
  visit_all(dst, [&]<class To>(TypeTag<To> to) {
    visit_all(src, [&]<class From>(TypeTag<From>) {
      kernel = RowKernel::of<convert_row<To, From>>(dst, src, to);
    });
  });
  return kernel;
}

void cpu::copy_elements(const Tensor& dst, const Tensor& src) {
  if (reorder(dst, src)) return;
  strided_loop(dst, src, copy_kernel(dst.dtype(), src.dtype()));
}

void cpu::fill_elements(const Tensor& dst, Scalar value) {
  visit_all(dst.dtype(), [&](auto to) {
    using T = typename decltype(to)::type;
    const T number = element_of<T>(value);
    strided_loop(dst, [number](const StridedRow& row) {
      if (row.dense<T>(0)) {
        std::fill_n(row.at<T>(0), row.size, number);
        return;
      }
      char* out = row.data[0];
      for (int64_t i = 0; i < row.size; ++i, out += row.step[0]) {
        *reinterpret_cast<T*>(out) = number;
      }
    });
  });
}

static void check_fits(const Tensor& dst, const Tensor& src) {
  if (src.shape() == dst.shape()) return;
  LATHE_CHECK(ShapeError, broadcast_shapes("copy", src.shape(), dst.shape()) == dst.shape(),
              "copy: ", src.shape(), " does not broadcast to ", dst.shape(), " (dst: ", dst,
              ", src: ", src, ")");
}

void copy_values(const Tensor& dst, const Tensor& src) {
  check_fits(dst, src);
  if (dst.device() != src.device()) return cuda::transfer(dst, src, false);
  LATHE_DISPATCH(dst.device(), copy_elements(dst, src));
}

void copy_values_async(const Tensor& dst, const Tensor& src) {
  check_fits(dst, src);
  if (dst.device() != src.device()) return cuda::transfer(dst, src, true);
  LATHE_DISPATCH(dst.device(), copy_elements(dst, src));
}

void fill_values(const Tensor& dst, Scalar value) {
  LATHE_DISPATCH(dst.device(), fill_elements(dst, value));
}

}  // namespace lathe
