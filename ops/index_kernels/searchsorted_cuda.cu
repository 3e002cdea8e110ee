// CUDA kernel of searchsorted. Contract: searchsorted.h.
#include "lathe/core/gpu/launch.h"
#include "lathe/ops/index_kernels/searchsorted_math.h"
#include "lathe/ops/searchsorted.h"

namespace lathe {

namespace {

// One thread per value in a grid-stride loop, a binary search each. The upper levels of the search
// stay in the caches, the lower ones read a sector of 32 bytes each; latency bound.
template <class T>
__global__ void searchsorted_kernel(int64_t* __restrict__ out, const T* __restrict__ sorted,
                                    const T* __restrict__ values, int64_t n, int64_t m,
                                    int64_t total, bool right) {
  const int64_t step = int64_t(gridDim.x) * blockDim.x;
  for (int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; i < total; i += step) {
    out[i] = math::search_row(sorted + i / m * n, n, values[i], right);
  }
}

template <class T>
void search_all(const Tensor& out, const Tensor& sorted, const Tensor& values, bool right) {
  const auto [grid, block] = launch_1d(values.numel());
  launch(searchsorted_kernel<T>, grid, block, 0, current_stream(values.device()),
         out.data<int64_t>(), sorted.data<T>(), values.data<T>(), sorted.dim(1), values.dim(1),
         values.numel(), right);
  LATHE_CUDA_CHECK(cudaGetLastError());
}

}  // namespace

void cuda::searchsorted(const Tensor& out, const Tensor& sorted, const Tensor& values, bool right) {
  switch (values.dtype()) {
    case kF32: return search_all<float>(out, sorted, values, right);
    case kF64: return search_all<double>(out, sorted, values, right);
    default: return search_all<int64_t>(out, sorted, values, right);
  }
}

}  // namespace lathe
