// Which kernels can wait for the one before. Contract: dependent_launch.cuh.
#include <cuda_runtime.h>

#include <unordered_map>

#include "lathe/core/gpu/launch.h"

namespace lathe::detail {

bool has_code_that_waits(const void* kernel) {
  int gpu = 0;
  LATHE_CUDA_CHECK(cudaGetDevice(&gpu));
  thread_local std::unordered_map<const void*, bool> known[16];
  constexpr int kKnown = 16;  // GPUs of one machine; on others nobody knows
  if (gpu >= kKnown) return false;
  const auto [at, is_new] = known[gpu].try_emplace(kernel, false);
  if (is_new) {
    cudaFuncAttributes code = {};
    LATHE_CUDA_CHECK(cudaFuncGetAttributes(&code, kernel));
    at->second = code.ptxVersion >= 90;
  }
  return at->second;
}

}  // namespace lathe::detail
