// Kernels whose code is made at run time, and loaded into a GPU by its driver.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "lathe/core/device.h"
#include "lathe/core/gpu/architectures.h"

namespace lathe::cuda {

/// What the driver says of a GPU.
/// throws: CudaError; NoCudaError in a build without CUDA.
ComputeCapability compute_capability(Device gpu);

/// Stays loaded until the process ends: graphs that were captured may still launch it.
class LoadedKernel {
 public:
  /// The kernel `name` in machine code for this GPU, or in PTX.
  /// throws: CudaError with the driver's reason; NoCudaError in a build without CUDA.
  LoadedKernel(const std::string& code, const char* name, Device gpu);

  /// Queues it on the current stream, with about one thread for each of `n` pieces of work.
  /// `arguments` point to the values of the parameters, in their order.
  /// throws: CudaError.
  void launch(int64_t n, std::span<void*> arguments) const;

 private:
  Device gpu_;
  void* function_ = nullptr;
};

}  // namespace lathe::cuda
