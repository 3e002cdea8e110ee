// How kernels are launched that can wait for the one before. Contract: dependent_launch.cuh.
#include <unordered_map>

#include "lathe/core/gpu/dependent_launch.cuh"

namespace lathe::detail {

namespace {

/// Whether the code of this kernel that runs on the current GPU waits: its PTX is for compute
/// capability 9.0 or later. Older code has no such instruction.
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

}  // namespace

DependentLaunch::DependentLaunch(const void* kernel, dim3 grid, dim3 block, size_t shared_bytes,
                                 Stream stream) {
  config_.gridDim = grid;
  config_.blockDim = block;
  config_.dynamicSmemBytes = shared_bytes;
  config_.stream = static_cast<cudaStream_t>(stream.native);
  if (!tries(Unmeasured::kDependentLaunch) || !has_code_that_waits(kernel)) return;
  early_.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early_.val.programmaticStreamSerializationAllowed = 1;
  config_.attrs = &early_;
  config_.numAttrs = 1;
}

}  // namespace lathe::detail
