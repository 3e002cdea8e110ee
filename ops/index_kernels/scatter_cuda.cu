// CUDA kernel of scatter.h.
#include "lathe/core/copy.h"
#include "lathe/core/gpu/launch.h"
#include "lathe/ops/scatter.h"

namespace lathe::cuda {

namespace {

// One thread per place in a grid-stride loop; an atomic maximum of integers, so the result does not
// depend on the order. Writer k is stored as k + 1, and 0 means nobody. A place out of range, which
// check_index has reported, is left out.
__global__ void last_writer_kernel(unsigned long long* __restrict__ last,
                                   const int64_t* __restrict__ places, int64_t count,
                                   int64_t size) {
  const int64_t step = int64_t(gridDim.x) * blockDim.x;
  for (int64_t k = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; k < count; k += step) {
    const int64_t place = places[k];
    if (place >= 0 && place < size) atomicMax(last + place, static_cast<unsigned long long>(k + 1));
  }
}

// From k + 1, or 0 for nobody, to k, or -1.
__global__ void count_from_zero_kernel(int64_t* last, int64_t size) {
  const int64_t step = int64_t(gridDim.x) * blockDim.x;
  for (int64_t p = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; p < size; p += step) --last[p];
}

}  // namespace

void last_writer(const Tensor& last, const Tensor& places) {
  if (last.numel() == 0) return;
  fill_values(last, 0);
  const Stream stream = current_stream(last.device());
  if (places.numel() > 0) {
    const auto [grid, block] = launch_1d(places.numel());
    launch(last_writer_kernel, grid, block, 0, stream,
           static_cast<unsigned long long*>(last.raw_data()), places.data<int64_t>(),
           places.numel(), last.numel());
    LATHE_CUDA_CHECK(cudaGetLastError());
  }
  const auto [grid, block] = launch_1d(last.numel());
  launch(count_from_zero_kernel, grid, block, 0, stream, last.data<int64_t>(), last.numel());
  LATHE_CUDA_CHECK(cudaGetLastError());
}

}  // namespace lathe::cuda
