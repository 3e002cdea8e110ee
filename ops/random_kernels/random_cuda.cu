// CUDA kernels of ops/random.h: one Philox counter per thread, which a functor of random_math.h
// turns into a few values, as on the CPU. Contract: ops/random.h.
#include "lathe/core/copy.h"
#include "lathe/core/gpu/pointwise.cuh"
#include "lathe/ops/random_kernels/counter_loop.cuh"
#include "lathe/ops/random_kernels/random_math.h"

namespace lathe::cuda {

namespace {

// out[i] = value i % kValues of counter i / kValues. One thread per counter in a grid-stride loop,
// which stores its values as one packet where `packed`. sizeof(T) bytes per element are written and
// none read. A counter costs about 100 instructions, 20 of them wide multiplications: f32 is meant
// to reach 80 % of the write bandwidth. Half types are bound by arithmetic, as are normals, which
// need a logarithm, a sine and a cosine.
template <class T, class Make>
__global__ void random_kernel(T* __restrict__ out, Make make, PhiloxStart origin, bool packed,
                              int64_t n) {
  constexpr int kValues = Make::kValues;
  const Generator::State start = origin.state();
  const int64_t step = int64_t(gridDim.x) * blockDim.x;
  for (int64_t c = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; c * kValues < n; c += step) {
    Packet<T, kValues> values;
    make(philox4x32_10(start.seed, start.offset + static_cast<uint64_t>(c), 0), values.v);
    T* to = out + c * kValues;
    if (packed && (c + 1) * kValues <= n) {
      *reinterpret_cast<Packet<T, kValues>*>(to) = values;
    } else {
      for (int v = 0; v < kValues && c * kValues + v < n; ++v) to[v] = values.v[v];
    }
  }
}

// The same for tensors that are not row-major: a counter's values are loop.step apart, but
// neighbouring threads' values are neighbours.
template <class T, class Make>
__global__ void random_strided_kernel(T* __restrict__ out, Make make, PhiloxStart origin,
                                      CounterLoop<1> loop) {
  const Generator::State start = origin.state();
  const uint32_t step = gridDim.x * blockDim.x;
  for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < loop.counters; i += step) {
    const auto at = loop.index(i);
    T values[Make::kValues];
    const uint64_t counter = static_cast<uint64_t>(loop.start[1] + at[1]);
    make(philox4x32_10(start.seed, start.offset + counter, 0), values);
    T* const to = out + loop.start[0] + at[0];
    for (int v = 0; v < Make::kValues; ++v) to[v * loop.step[0]] = values[v];
  }
}

/// Fills a row-major tensor; others through a row-major copy.
template <class T, class Make>
void fill_rows(const Tensor& out, PhiloxStart start, Make make) {
  const int64_t n = out.numel();
  if (n == 0) return;
  const bool direct = out.is_contiguous();
  const Tensor rows =
      direct ? out : empty(out.shape(), {.dtype = out.dtype(), .device = out.device()});
  T* const data = rows.data<T>();
  const bool packed = holds_packets<Make::kValues>(data);
  const auto [grid, threads] = launch_1d(ceil_div(n, Make::kValues));
  launch(random_kernel<T, Make>, grid, threads, 0, current_stream(out.device()), data, make, start,
         packed, n);
  LATHE_CUDA_CHECK(cudaGetLastError());
  if (!direct) copy_values(out, rows);
}

/// Fills any tensor, in one pass where its layout allows.
template <class T, class Make>
void fill(const Tensor& out, PhiloxStart start, Make make) {
  const auto fill_part = [&](const CounterLoop<1>& loop) {
    const auto [grid, threads] = launch_1d(loop.counters);
    launch(random_strided_kernel<T, Make>, grid, threads, 0, current_stream(out.device()),
           static_cast<T*>(out.raw_data()), make, start, loop);
    LATHE_CUDA_CHECK(cudaGetLastError());
  };
  const bool strided = out.numel() > 0 && !out.is_contiguous();
  if (strided && each_counter_part(out.shape(), {out.strides()}, Make::kValues, fill_part)) return;
  fill_rows<T>(out, start, make);
}

}  // namespace

void fill_random(const Tensor& out, const RandomDraw& draw, const RandomStart& origin) {
  const PhiloxStart start = origin.in_kernel();
  math::visit_random(draw, out.dtype(),
                     [&]<class T>(TypeTag<T>, auto make) { fill<T>(out, start, make); });
}

}  // namespace lathe::cuda
