// How every hand-written kernel is started:
//   launch(kernel, grid, block, shared_bytes, stream, arguments…)
// There is no <<<>>>, so that the same source compiles with nvcc, and with the host compiler over
// another <cuda_runtime.h>, that of an emulated GPU. Programs with kernels of their own include
// this header in their .cu files (examples/custom_op).
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "lathe/core/ceil_div.h"
#include "lathe/core/config.h"
#include "lathe/core/cuda.h"
#include "lathe/core/error.h"
#include "lathe/core/stream.h"

// LATHE_CUDA_CHECK(call): throws CudaError with the call's text and the runtime's reason, and
// clears the runtime's error. (A macro, because the message contains the text of the call.)
#define LATHE_CUDA_CHECK(...)                                                               \
  do {                                                                                      \
    if (const cudaError_t lathe_status = (__VA_ARGS__); lathe_status != cudaSuccess) {      \
      static_cast<void>(cudaGetLastError());                                                \
      LATHE_FAIL(::lathe::CudaError, #__VA_ARGS__, ": ", cudaGetErrorString(lathe_status)); \
    }                                                                                       \
  } while (false)

namespace lathe {

/// Threads per block of pointwise kernels: a multiple of the warp, and small enough for full
/// occupancy on every GPU.
inline constexpr unsigned kPointwiseBlock = 256;

/// Of the GPU itself, for grids that fill it once. Costs no wait, during a capture neither.
inline int multiprocessors(Device device) {
  int count = 0;
  LATHE_CUDA_CHECK(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device.index));
  return count;
}

struct LaunchSize {
  dim3 grid, block;
};

/// One thread per element in a grid-stride loop: at most as many blocks as fill the largest GPU.
inline LaunchSize launch_1d(int64_t n) {
  // 16 blocks for each of the 132 multiprocessors of an H100 or H200.
  constexpr int64_t kMostBlocks = 132 * 16;
  const int64_t blocks = std::clamp<int64_t>(ceil_div(n, kPointwiseBlock), 1, kMostBlocks);
  return {dim3(static_cast<unsigned>(blocks)), dim3(kPointwiseBlock)};
}

namespace detail {

/// Not part of launch(), which is compiled for each of several thousand kernels.
inline void check_launch(cudaError_t launched) {
  if (launched == cudaSuccess) return count_launch();
  static_cast<void>(cudaGetLastError());
  LATHE_FAIL(CudaError, "cudaLaunchKernelEx: ", cudaGetErrorString(launched));
}

}  // namespace detail

// LATHE_SHARED(float[32], name): a variable in the block's shared memory. LATHE_DYNAMIC_SHARED(
// float, name): the block's dynamic shared memory. An emulated GPU has its own, to know of them.
// (Macros, because they are declarations.)
#ifndef LATHE_SHARED
#  define LATHE_SHARED(T, name) __shared__ ::std::type_identity_t<T> name
#  define LATHE_DYNAMIC_SHARED(T, name)                                   \
    extern __shared__ __align__(16) unsigned char lathe_dynamic_shared[]; \
    T* const name = reinterpret_cast<T*>(lathe_dynamic_shared)
#endif

template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes,
            Stream stream, Arguments&&... arguments) {
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = static_cast<cudaStream_t>(stream.native);
  detail::check_launch(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...));
}

}  // namespace lathe
