// CUDA kernel of dropout, with the arithmetic of dropout_math.h. Contract: dropout.h.
#include "lathe/core/copy.h"
#include "lathe/core/gpu/pointwise.cuh"
#include "lathe/ops/dropout.h"
#include "lathe/ops/random_kernels/counter_loop.cuh"
#include "lathe/ops/random_kernels/dropout_math.h"

namespace lathe {

namespace {

// One thread per Philox counter, which decides about four neighbours, in a grid-stride loop.
// 2 * sizeof(T) bytes per element, read and written four at a time where `packed`. For f32 the
// memory traffic hides the counter's 100 instructions: meant to reach 80 % of the copy bandwidth.
// Half types have half the bytes and are bound by the instructions.
template <class T>
__global__ void dropout_kernel(T* __restrict__ y, const T* __restrict__ x,
                               math::Dropout<ComputeType<T>> drop, PhiloxStart origin, bool packed,
                               int64_t n) {
  using C = ComputeType<T>;
  using Four = cuda::Packet<T, 4>;
  const Generator::State start = origin.state();
  const int64_t step = int64_t(gridDim.x) * blockDim.x;
  for (int64_t c = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; 4 * c < n; c += step) {
    const Philox4x32 bits = philox4x32_10(start.seed, start.offset + static_cast<uint64_t>(c), 0);
    if (packed && 4 * c + 4 <= n) {
      Four four = reinterpret_cast<const Four*>(x)[c];
      for (int v = 0; v < 4; ++v) four.v[v] = T(drop(C(four.v[v]), bits.v[v]));
      reinterpret_cast<Four*>(y)[c] = four;
    } else {
      for (int v = 0; v < 4 && 4 * c + v < n; ++v)
        y[4 * c + v] = T(drop(C(x[4 * c + v]), bits.v[v]));
    }
  }
}

// The same for tensors that are not row-major: a counter's four elements are loop.step apart, but
// neighbouring threads' elements are neighbours.
template <class T>
__global__ void dropout_strided_kernel(T* __restrict__ y, const T* __restrict__ x,
                                       math::Dropout<ComputeType<T>> drop, PhiloxStart origin,
                                       cuda::CounterLoop<2> loop) {
  using C = ComputeType<T>;
  const Generator::State start = origin.state();
  const uint32_t step = gridDim.x * blockDim.x;
  for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < loop.counters; i += step) {
    const auto at = loop.index(i);
    const T* const from = x + loop.start[1] + at[1];
    T four[4];
    for (int v = 0; v < 4; ++v) four[v] = from[v * loop.step[1]];
    const uint64_t counter = static_cast<uint64_t>(loop.start[2] + at[2]);
    const Philox4x32 bits = philox4x32_10(start.seed, start.offset + counter, 0);
    T* const to = y + loop.start[0] + at[0];
    for (int v = 0; v < 4; ++v) to[v * loop.step[0]] = T(drop(C(four[v]), bits.v[v]));
  }
}

/// For row-major tensors.
template <class T>
void drop_rows(const Tensor& y, const Tensor& x, math::Dropout<ComputeType<T>> drop,
               PhiloxStart start) {
  const int64_t n = x.numel();
  T* const out = y.data<T>();
  const T* const in = x.data<T>();
  const bool packed = cuda::holds_packets<4>(out) && cuda::holds_packets<4>(in);
  const auto [grid, threads] = launch_1d(ceil_div(n, 4));
  launch(dropout_kernel<T>, grid, threads, 0, current_stream(x.device()), out, in, drop, start,
         packed, n);
}

}  // namespace

void cuda::dropout(const Tensor& y, const Tensor& x, double p, double scale,
                   const RandomStart& origin) {
  if (x.numel() == 0) return;
  const PhiloxStart start = origin.in_kernel();
  visit_float(x.dtype(), "dropout", [&](auto tag) {
    using T = typename decltype(tag)::type;
    const math::Dropout<ComputeType<T>> drop{static_cast<float>(p),
                                             static_cast<ComputeType<T>>(scale)};
    const auto drop_part = [&](const CounterLoop<2>& loop) {
      const auto [grid, threads] = launch_1d(loop.counters);
      launch(dropout_strided_kernel<T>, grid, threads, 0, current_stream(x.device()),
             static_cast<T*>(y.raw_data()), static_cast<const T*>(x.raw_data()), drop, start, loop);
    };
    if (y.is_contiguous() && x.is_contiguous()) return drop_rows<T>(y, x, drop, start);
    if (each_counter_part(x.shape(), {y.strides(), x.strides()}, 4, drop_part)) return;
    const Tensor from = empty(x.shape(), {.dtype = x.dtype(), .device = x.device()});
    const Tensor to = empty_like(from);
    copy_values(from, x);
    drop_rows<T>(to, from, drop, start);
    copy_values(y, to);
  });
  LATHE_CUDA_CHECK(cudaGetLastError());
}

}  // namespace lathe
