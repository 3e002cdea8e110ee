// Which GPUs the compiled kernels run on.
#pragma once

#include <string_view>

namespace lathe::cuda {

struct ComputeCapability {
  int major = 0, minor = 0;
};

/// True if kernels that were compiled for `architectures` run on a GPU of this compute capability.
/// `architectures` is CMAKE_CUDA_ARCHITECTURES with spaces between its entries: "80-real 90".
///   90-real     machine code: GPUs of the same major version, from that minor version on
///   90-virtual  PTX, which the driver compiles: GPUs of that version and every later one
///   90          both
///   90a         for that version only, as machine code and as PTX
///   100f        for that major version, from that minor version on
/// An entry without a number ("native", "all") counts as one that runs.
/// ref: CUDA C++ programming guide, "Compute capabilities"; CMake, CUDA_ARCHITECTURES.
bool kernels_run_on(std::string_view architectures, ComputeCapability gpu);

}  // namespace lathe::cuda
