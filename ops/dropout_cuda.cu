// CUDA kernel of dropout, with the arithmetic of dropout_math.h. Contract: dropout.h.
#include "lathe/core/gpu/pointwise.cuh"
#include "lathe/ops/dropout.h"
#include "lathe/ops/dropout_math.h"

namespace lathe {

namespace {

// One thread per Philox counter, which decides about four neighbours, in a grid-stride loop.
// 2 * sizeof(T) bytes per element, read and written four at a time where `packed`. For f32 the
// memory traffic hides the counter's 100 instructions: meant to reach 80 % of the copy bandwidth.
// Half types have half the bytes and are bound by the instructions.
template <class T>
__global__ void dropout_kernel(T* __restrict__ y, const T* __restrict__ x,
                               math::Dropout<ComputeType<T>> drop, Generator::Block block,
                               bool packed, int64_t n) {
  using C = ComputeType<T>;
  using Four = cuda::Packet<T, 4>;
  const int64_t step = int64_t(gridDim.x) * blockDim.x;
  for (int64_t c = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; 4 * c < n; c += step) {
    const Philox4x32 bits = philox4x32_10(block.seed, block.offset + static_cast<uint64_t>(c), 0);
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

}  // namespace

void cuda::dropout(const Tensor& y, const Tensor& x, double p, double scale,
                   Generator::Block block) {
  const int64_t n = x.numel();
  if (n == 0) return;
  visit_float(x.dtype(), "dropout", [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    T* const out = y.data<T>();
    const T* const in = x.data<T>();
    const auto aligned = [](const void* data) {
      return reinterpret_cast<uintptr_t>(data) % sizeof(Packet<T, 4>) == 0;
    };
    const math::Dropout<C> drop{static_cast<float>(p), static_cast<C>(scale)};
    const auto [grid, threads] = launch_1d((n + 3) / 4);
    launch(dropout_kernel<T>, grid, threads, 0, current_stream(x.device()), out, in, drop, block,
           aligned(out) && aligned(in), n);
  });
  LATHE_CUDA_CHECK(cudaGetLastError());
}

}  // namespace lathe
