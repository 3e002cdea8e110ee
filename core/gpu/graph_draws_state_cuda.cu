// The state of a generator in a GPU's memory, where the kernels of a graph read it. Contract:
// graph_draws.h.
#include "lathe/core/gpu/graph_draws.h"
#include "lathe/core/gpu/launch.h"

namespace lathe::cuda {

namespace {

// One thread: 16 bytes, bound by the launch.
__global__ void random_base_kernel(Generator::State* base, Generator::State state) {
  *base = state;
}

}  // namespace

void set_random_base(const Tensor& base, Generator::State state, Stream stream) {
  launch(random_base_kernel, dim3(1), dim3(1), 0, stream,
         reinterpret_cast<Generator::State*>(base.data<int64_t>()), state);
  LATHE_CUDA_CHECK(cudaGetLastError());
}

}  // namespace lathe::cuda
