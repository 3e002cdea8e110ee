// How every hand-written kernel is started: launch(kernel, grid, block, shared_bytes, stream,
// arguments…). No <<<>>>, so that the same text compiles with nvcc, and with the host compiler
// against the emulation in tests/emulation/.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "lathe/core/config.h"
#include "lathe/core/cuda.h"
#include "lathe/core/error.h"
#include "lathe/core/stream.h"

#if defined(LATHE_WITH_CUDA) && !defined(LATHE_CUDA_EMULATED)
#  include <cuda_runtime.h>
#else
#  include <tuple>

#  include "lathe/tests/emulation/cuda_emulation.h"
#  include "lathe/tests/emulation/cuda_runtime_emulation.h"
#endif

// LATHE_CUDA_CHECK(call): throws CudaError with the call's text and the runtime's reason, which the
// runtime then no longer reports. (A macro, because the text of the call is part of the message.)
#define LATHE_CUDA_CHECK(...)                                                               \
  do {                                                                                      \
    if (const cudaError_t lathe_status = (__VA_ARGS__); lathe_status != cudaSuccess) {      \
      static_cast<void>(cudaGetLastError());                                                \
      LATHE_FAIL(::lathe::CudaError, #__VA_ARGS__, ": ", cudaGetErrorString(lathe_status)); \
    }                                                                                       \
  } while (false)

namespace lathe {

/// Threads per block of pointwise kernels: a multiple of the warp, small enough for full occupancy
/// everywhere.
inline constexpr unsigned kPointwiseBlock = 256;

struct LaunchSize {
  dim3 grid, block;
};

/// One thread per element, in a grid-stride loop: enough blocks to fill the largest GPU, and no
/// more.
inline LaunchSize launch_1d(int64_t n) {
  constexpr int64_t kMostBlocks =
      132 * 16;  // 16 blocks for each of an H100/H200's 132 multiprocessors
  const int64_t blocks =
      std::clamp<int64_t>((n + kPointwiseBlock - 1) / kPointwiseBlock, 1, kMostBlocks);
  return {dim3(static_cast<unsigned>(blocks)), dim3(kPointwiseBlock)};
}

#if defined(LATHE_WITH_CUDA) && !defined(LATHE_CUDA_EMULATED)

// LATHE_DYNAMIC_SHARED(float, name): the block's dynamic shared memory. (A macro, because it is a
// declaration.)
#  define LATHE_DYNAMIC_SHARED(T, name)                                   \
    extern __shared__ __align__(16) unsigned char lathe_dynamic_shared[]; \
    T* const name = reinterpret_cast<T*>(lathe_dynamic_shared)

template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes,
            Stream stream, Arguments&&... arguments) {
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = static_cast<cudaStream_t>(stream.native);
  LATHE_CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...));
  detail::count_launch();
}

#else

template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes,
            Stream stream, Arguments&&... arguments) {
  // The arguments are copied, as a launch copies them: the kernel may run much later.
  std::tuple<Parameters...> parameters(static_cast<Parameters>(arguments)...);
  const auto run = [kernel, grid, block, shared_bytes, parameters = std::move(parameters)] {
    emulation::run_grid(reinterpret_cast<void (*)()>(kernel), grid, block, shared_bytes,
                        [&] { std::apply(kernel, parameters); });
  };
  if constexpr (kHasCuda) {
    LATHE_CUDA_CHECK(emulation::enqueue_kernel(static_cast<cudaStream_t>(stream.native), run));
  } else {
    run();  // the kernel tests of a build without a backend: no queues, host tensors
  }
  detail::count_launch();
}

#endif

}  // namespace lathe
