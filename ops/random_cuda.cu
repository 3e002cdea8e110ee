// CUDA kernels of ops/random.h: one Philox counter per thread, which a functor of random_math.h
// turns into a few values, as on the CPU.
#include "lathe/core/copy.h"
#include "lathe/core/gpu/pointwise.cuh"
#include "lathe/ops/random.h"
#include "lathe/ops/random_math.h"

namespace lathe::cuda {

namespace {

// out[i] = value i % kValues of counter i / kValues. One thread per counter in a grid-stride loop,
// which stores its values as one packet where `packed`. sizeof(T) bytes per element are written and
// none read. A counter costs about 100 instructions, 20 of them wide multiplications: f32 is meant
// to reach 80 % of the write bandwidth. Half types are bound by arithmetic, as are normals, which
// need a logarithm, a sine and a cosine.
template <class T, class Make>
__global__ void random_kernel(T* __restrict__ out, Make make, Generator::Block block, bool packed,
                              int64_t n) {
  constexpr int kValues = Make::kValues;
  const int64_t step = int64_t(gridDim.x) * blockDim.x;
  for (int64_t c = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; c * kValues < n; c += step) {
    Packet<T, kValues> values;
    make(philox4x32_10(block.seed, block.offset + static_cast<uint64_t>(c), 0), values.v);
    T* to = out + c * kValues;
    if (packed && (c + 1) * kValues <= n) {
      *reinterpret_cast<Packet<T, kValues>*>(to) = values;
    } else {
      for (int v = 0; v < kValues && c * kValues + v < n; ++v) to[v] = values.v[v];
    }
  }
}

/// Tensors that are not dense are filled through a dense copy.
template <class T, class Make>
void fill(const Tensor& out, Generator::Block block, Make make) {
  const int64_t n = out.numel();
  if (n == 0) return;
  const bool dense = out.is_contiguous();
  const Tensor target =
      dense ? out : empty(out.shape(), {.dtype = out.dtype(), .device = out.device()});
  T* const data = target.data<T>();
  const bool packed = reinterpret_cast<uintptr_t>(data) % sizeof(Packet<T, Make::kValues>) == 0;
  const auto [grid, threads] = launch_1d((n + Make::kValues - 1) / Make::kValues);
  launch(random_kernel<T, Make>, grid, threads, 0, current_stream(out.device()), data, make, block,
         packed, n);
  LATHE_CUDA_CHECK(cudaGetLastError());
  if (!dense) copy_values(out, target);
}

}  // namespace

void fill_uniform(const Tensor& out, double low, double high, Generator::Block block) {
  visit_float(out.dtype(), "uniform", [&](auto tag) {
    using T = typename decltype(tag)::type;
    fill<T>(out, block, math::UniformValues<T>(low, high));
  });
}

void fill_normal(const Tensor& out, double mean, double std, Generator::Block block) {
  visit_float(out.dtype(), "normal", [&](auto tag) {
    using T = typename decltype(tag)::type;
    fill<T>(out, block, math::NormalValues<T>(mean, std));
  });
}

void fill_integers(const Tensor& out, int64_t low, uint64_t span, Generator::Block block) {
  visit_number(out.dtype(), "randint", [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (math::is_wide_span(span)) {
      fill<T>(out, block, math::WideIntegerValues<T>{low, span});
    } else {
      fill<T>(out, block, math::IntegerValues<T>{low, span});
    }
  });
}

}  // namespace lathe::cuda
