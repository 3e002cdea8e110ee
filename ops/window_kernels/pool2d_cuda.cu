// CUDA kernels of max pooling. pool2d_math.h, which the CPU uses too, has the windows and the
// choice of the largest. Contract: pool2d.h.
#include <limits>

#include "lathe/core/ceil_div.h"
#include "lathe/core/gpu/launch.h"
#include "lathe/core/gpu/packet.cuh"
#include "lathe/core/visit.h"
#include "lathe/ops/pool2d.h"
#include "lathe/ops/window_kernels/plane_index.cuh"
#include "lathe/ops/window_kernels/pool2d_math.h"

namespace lathe::cuda {

namespace {

/// The windows over planes of height x width, with V numbers per packet.
struct Windows {
  PoolAxis rows, cols;
  int64_t packets;  // per pixel

  /// The index of the packet of pixel (h, w) in a plane's memory.
  LATHE_HD int64_t at(int64_t plane, int64_t h, int64_t w, int64_t packet) const {
    return ((plane * rows.in + h) * cols.in + w) * packets + packet;
  }
  /// The index of the packet of window (p, q).
  LATHE_HD int64_t window_at(int64_t plane, int64_t p, int64_t q, int64_t packet) const {
    return ((plane * rows.out + p) * cols.out + q) * packets + packet;
  }
};

// y, index = the largest element of each window and its position (null: not wanted). One thread per
// packet of windows: V neighbouring channels (16 bytes of x) in NHWC, one window in row-major
// order. Memory bound: sizeof(T) per element of x, sizeof(T) + 4 per window. Meant to reach 80 % of
// the copy bandwidth in NHWC (overlapping windows find their rows in the caches), about half of
// that in row-major order, where a warp's loads are 32 separate numbers.
template <class T, int V, class Index>
__global__ void max_pool2d_kernel(Packet<T, V>* __restrict__ y,
                                  Packet<int32_t, V>* __restrict__ index,
                                  const Packet<T, V>* __restrict__ x, Windows windows,
                                  Planes<Index> outputs) {
  const Index step = gridDim.x * blockDim.x;
  for (Index i = blockIdx.x * blockDim.x + threadIdx.x; i < outputs.total; i += step) {
    const Pixel out = pixel_of(outputs, i);
    Packet<T, V> best;
    Packet<int32_t, V> place;
    for (int v = 0; v < V; ++v) {
      best.v[v] = T(-std::numeric_limits<float>::infinity());
      place.v[v] = -1;
    }
    bool first = true;
    for (int64_t r = 0; r < windows.rows.kernel; ++r) {
      if (!windows.rows.holds(out.row, r)) continue;
      const int64_t h = windows.rows.place(out.row, r);
      for (int64_t s = 0; s < windows.cols.kernel; ++s) {
        if (!windows.cols.holds(out.col, s)) continue;
        const int64_t w = windows.cols.place(out.col, s);
        const auto at = static_cast<int32_t>(h * windows.cols.in + w);
        const Packet<T, V> value = x[windows.at(out.plane, h, w, out.packet)];
        for (int v = 0; v < V; ++v) {
          if (first) {
            best.v[v] = value.v[v];  // the first element, so that -inf has a position too
            place.v[v] = at;
          } else {
            take_larger(best.v[v], place.v[v], value.v[v], at);
          }
        }
        first = false;
      }
    }
    y[i] = best;
    if (index != nullptr) index[i] = place;
  }
}

/// The windows that span position `at`: first to last, with those whose dilated taps skip it.
struct Span {
  int64_t first, last;
};
__device__ inline Span windows_over(const PoolAxis& axis, int64_t at) {
  const int64_t low = at + axis.pad - (axis.kernel - 1) * axis.dilation;
  const int64_t last = (at + axis.pad) / axis.stride;
  return {low > 0 ? ceil_div(low, axis.stride) : 0, last < axis.out - 1 ? last : axis.out - 1};
}

// dx[h,w] = the sum of dy over the windows whose largest element lies there. One thread per packet
// of dx looks at the windows over it, in order, so there are no atomics and the sums have the CPU's
// bits. Memory bound: sizeof(T) per element of dx, sizeof(T) + 4 per window, each read from DRAM
// once and from the caches as often as windows overlap. Meant to reach 70 % of the copy bandwidth.
template <class T, int V, class Index>
__global__ void max_pool2d_scatter_kernel(Packet<T, V>* __restrict__ dx,
                                          const Packet<T, V>* __restrict__ dy,
                                          const Packet<int32_t, V>* __restrict__ index,
                                          Windows windows, Planes<Index> inputs) {
  using S = ComputeType<T>;
  const Index step = gridDim.x * blockDim.x;
  for (Index i = blockIdx.x * blockDim.x + threadIdx.x; i < inputs.total; i += step) {
    const Pixel in = pixel_of(inputs, i);
    const auto place = static_cast<int32_t>(in.row * windows.cols.in + in.col);
    const Span rows = windows_over(windows.rows, in.row), cols = windows_over(windows.cols, in.col);
    S sum[V] = {};
    for (int64_t p = rows.first; p <= rows.last; ++p) {
      for (int64_t q = cols.first; q <= cols.last; ++q) {
        const int64_t at = windows.window_at(in.plane, p, q, in.packet);
        const Packet<int32_t, V> from = index[at];
        const Packet<T, V> value = dy[at];
        for (int v = 0; v < V; ++v) {
          if (from.v[v] == place) sum[v] += S(value.v[v]);
        }
      }
    }
    Packet<T, V> result;
    for (int v = 0; v < V; ++v) result.v[v] = T(sum[v]);
    dx[i] = result;
  }
}

// y = x[index], 0 where index is -1. One thread per window. sizeof(T) + 4 bytes are read and
// sizeof(T) written per window; the reads of x are scattered.
template <class T, class Index>
__global__ void max_pool2d_gather_kernel(T* __restrict__ y, const T* __restrict__ x,
                                         const int32_t* __restrict__ index, int64_t plane_size,
                                         Planes<Index> outputs) {
  const Index step = gridDim.x * blockDim.x;
  for (Index i = blockIdx.x * blockDim.x + threadIdx.x; i < outputs.total; i += step) {
    const Pixel out = pixel_of(outputs, i);
    const int64_t inner = outputs.packets.divisor(), place = index[i];
    y[i] = place < 0 ? T(0.0f) : x[(out.plane * plane_size + place) * inner + out.packet];
  }
}

Windows windows_of(const Tensor& x, const Tensor& y, const MaxPool2dOptions& opt, int64_t packets) {
  return {{x.dim(2), y.dim(2), opt.kernel.rows, opt.stride.rows, opt.pad.rows, opt.dilation.rows},
          {x.dim(3), y.dim(3), opt.kernel.cols, opt.stride.cols, opt.pad.cols, opt.dilation.cols},
          packets};
}

}  // namespace

void max_pool2d(const Tensor& y, const Tensor& index, const Tensor& x,
                const MaxPool2dOptions& opt) {
  if (y.numel() == 0) return;
  const int64_t inner = numbers_per_pixel(x, y);
  void* const places = index.defined() ? index.raw_data() : nullptr;
  visit_float(x.dtype(), "max_pool2d", [&](auto tag) {
    using T = typename decltype(tag)::type;
    visit_packets<T>(
        inner, y.raw_data(), x.raw_data(), places, y.numel(), [&](auto width, auto index_tag) {
          constexpr int V = decltype(width)::value;
          using Index = typename decltype(index_tag)::type;
          const auto [grid, block] = launch_1d(y.numel() / V);
          launch(max_pool2d_kernel<T, V, Index>, grid, block, 0, current_stream(x.device()),
                 static_cast<Packet<T, V>*>(y.raw_data()), static_cast<Packet<int32_t, V>*>(places),
                 static_cast<const Packet<T, V>*>(x.raw_data()), windows_of(x, y, opt, inner / V),
                 planes_of<Index>(y, inner, V));
        });
  });
  LATHE_CUDA_CHECK(cudaGetLastError());
}

void max_pool2d_scatter(const Tensor& dx, const Tensor& dy, const Tensor& index,
                        const MaxPool2dOptions& opt) {
  if (dx.numel() == 0) return;
  const int64_t inner = numbers_per_pixel(dx, index);
  visit_float(dx.dtype(), "max_pool2d", [&](auto tag) {
    using T = typename decltype(tag)::type;
    visit_packets<T>(inner, dx.raw_data(), dy.raw_data(), index.raw_data(), dx.numel(),
                     [&](auto width, auto index_tag) {
                       constexpr int V = decltype(width)::value;
                       using Index = typename decltype(index_tag)::type;
                       const auto [grid, block] = launch_1d(dx.numel() / V);
                       launch(
                           max_pool2d_scatter_kernel<T, V, Index>, grid, block, 0,
                           current_stream(dx.device()), static_cast<Packet<T, V>*>(dx.raw_data()),
                           static_cast<const Packet<T, V>*>(dy.raw_data()),
                           static_cast<const Packet<int32_t, V>*>(index.raw_data()),
                           windows_of(dx, index, opt, inner / V), planes_of<Index>(dx, inner, V));
                     });
  });
  LATHE_CUDA_CHECK(cudaGetLastError());
}

void max_pool2d_gather(const Tensor& y, const Tensor& x, const Tensor& index) {
  if (y.numel() == 0) return;
  const int64_t inner = numbers_per_pixel(x, index);
  const auto [grid, block] = launch_1d(y.numel());
  visit_float(x.dtype(), "max_pool2d", [&, g = grid, b = block](auto tag) {
    using T = typename decltype(tag)::type;
    const auto start = [&](auto index_tag) {
      using Index = typename decltype(index_tag)::type;
      launch(max_pool2d_gather_kernel<T, Index>, g, b, 0, current_stream(x.device()), y.data<T>(),
             x.data<T>(), index.data<int32_t>(), x.dim(2) * x.dim(3),
             planes_of<Index>(y, inner, 1));
    };
    y.numel() < (int64_t{1} << 31) ? start(TypeTag<uint32_t>{}) : start(TypeTag<uint64_t>{});
  });
  LATHE_CUDA_CHECK(cudaGetLastError());
}

}  // namespace lathe::cuda
