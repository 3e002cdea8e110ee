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

constexpr int64_t kCacheLine = 64;             // bytes
constexpr int64_t kSmallTransposition = 1024;  // elements: below, lines stay in the cache

template <class To, class From>
void convert_row(const StridedRow& row, TypeTag<To> /*dst*/) {
  if (row.dense<To>(0) && row.dense<From>(1)) {
    To* out = row.at<To>(0);
    const From* in = row.at<From>(1);
    if constexpr (std::is_same_v<To, From>) {
      std::memcpy(out, in, sizeof(To) * static_cast<size_t>(row.size));
    } else {
      for (int64_t i = 0; i < row.size; ++i) out[i] = convert<To>(in[i]);
    }
    return;
  }
  if (row.dense<To>(0) && row.step[1] == -static_cast<int64_t>(sizeof(From))) {  // reversed
    To* __restrict__ out = row.at<To>(0);
    const From* __restrict__ in = row.at<From>(1) - (row.size - 1);
    for (int64_t i = 0; i < row.size; ++i) out[i] = convert<To>(in[row.size - 1 - i]);
    return;
  }
  char* out = row.data[0];
  const char* in = row.data[1];
  for (int64_t i = 0; i < row.size; ++i, out += row.step[0], in += row.step[1]) {
    *reinterpret_cast<To*>(out) = convert<To>(*reinterpret_cast<const From*>(in));
  }
}

/// out[c * out_step + r] = in[r * in_step + c] for one tile, at most a cache line wide both ways.
/// It passes through a buffer, so that each line of memory is read or written as a whole: lines
/// that are a power of 2 apart would push one another out of the cache.
template <class T>
void transpose_tile(T* out, const T* in, int64_t rows, int64_t columns, int64_t out_step,
                    int64_t in_step) {
  constexpr int64_t kEdge = kCacheLine / static_cast<int64_t>(sizeof(T));
  T tile[kEdge][kEdge + 1];
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) tile[c][r] = in[r * in_step + c];
  }
  for (int64_t c = 0; c < columns; ++c) std::copy_n(tile[c], rows, out + c * out_step);
}

/// Copies elements of T's size by tiles, if the copy is a transposition. Returns false, and does
/// nothing, unless it is.
template <class T>
bool transpose(const Tensor& dst, const Tensor& src) {
  constexpr int64_t kEdge = kCacheLine / static_cast<int64_t>(sizeof(T));
  const StridedOperand operands[] = {{nullptr, 1, dst.strides()},
                                     {nullptr, 1, broadcast_strides(src, dst.shape())}};
  const LoopNest nest = make_nest(dst.shape(), operands, 2, LoopOrder::kDensestInside);
  const int across = dimension_across(nest);
  if (across == 0) return false;
  const LoopDim &row = nest.dims[0], &column = nest.dims[across];
  LoopNest others;
  others.operands = 2;
  for (int d = 1; d < nest.ndim; ++d) {
    if (d != across) others.push(nest.dims[d]);
  }
  if (others.ndim == 0) others.push(LoopDim{1, {}});
  const int64_t bands = ceil_div(column.size, kEdge);
  const int64_t grain = std::max<int64_t>(1, kParallelGrain / (kEdge * row.size));
  parallel_for(others.numel() * bands, grain, [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      const NestWalk<2> at(others, item / bands);
      const int64_t first = item % bands * kEdge, columns = std::min(kEdge, column.size - first);
      T* to = static_cast<T*>(dst.raw_data()) + at.offset[0] + first * column.step[0];
      const T* from = static_cast<const T*>(src.raw_data()) + at.offset[1] + first;
      for (int64_t r = 0; r < row.size; r += kEdge) {
        transpose_tile(to + r, from + r * row.step[1], std::min(kEdge, row.size - r), columns,
                       column.step[0], row.step[1]);
      }
    }
  });
  return true;
}

bool transpose(const Tensor& dst, const Tensor& src) {
  if (dst.dtype() != src.dtype() || dst.numel() < kSmallTransposition ||
      dst.strides() == src.strides())
    return false;
  switch (size_of(dst.dtype())) {
    case 1: return transpose<uint8_t>(dst, src);
    case 2: return transpose<uint16_t>(dst, src);
    case 4: return transpose<uint32_t>(dst, src);
    default: return transpose<uint64_t>(dst, src);
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
  if (transpose(dst, src)) return;
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
