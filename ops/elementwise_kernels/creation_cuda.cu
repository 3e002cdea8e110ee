// CUDA kernels of ops/creation.h, so that sequences need not be made on the host and copied.
#include "lathe/core/convert.h"
#include "lathe/core/gpu/launch.h"
#include "lathe/ops/creation.h"

namespace lathe::cuda {

namespace {

// out[i] = make(i). One thread per element in a grid-stride loop; sizeof(T) bytes per element are
// written and none read. Such tensors are small, so the launch dominates the cost.
template <class T, class Make>
__global__ void sequence_kernel(T* __restrict__ out, Make make, int64_t n) {
  const int64_t step = int64_t(gridDim.x) * blockDim.x;
  for (int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; i < n; i += step) {
    out[i] = convert<T>(make(i));
  }
}

template <class Make>
void fill(const Tensor& out, Make make) {
  if (out.numel() == 0) return;
  visit_all(out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto [grid, block] = launch_1d(out.numel());
    launch(sequence_kernel<T, Make>, grid, block, 0, current_stream(out.device()), out.data<T>(),
           make, out.numel());
  });
  LATHE_CUDA_CHECK(cudaGetLastError());
}

}  // namespace

void fill_sequence(const Tensor& out, math::IntegerSequence s) { fill(out, s); }
void fill_sequence(const Tensor& out, math::FloatSequence s) { fill(out, s); }
void fill_sequence(const Tensor& out, math::EvenlySpaced s) { fill(out, s); }

}  // namespace lathe::cuda
