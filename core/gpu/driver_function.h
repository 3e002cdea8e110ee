// Functions of the CUDA driver, found at run time. libcuda is never linked, so that the same
// program starts where there is no driver.
#pragma once

#include <cuda.h>

#include "lathe/core/gpu/launch.h"

namespace lathe::cuda {

/// Finds one function, in its form of CUDA 12.0; false where the driver has none of this name.
template <class Function>
bool find_driver_function(const char* name, Function& function) {
  constexpr unsigned kVersion = 12000;
  void* found = nullptr;
  cudaDriverEntryPointQueryResult answer = cudaDriverEntryPointSymbolNotFound;
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion(name, &found, kVersion, cudaEnableDefault, &answer);
  if (error != cudaSuccess) cudaGetLastError();  // it would stay behind as the thread's last error
  function = reinterpret_cast<Function>(found);
  return error == cudaSuccess && answer == cudaDriverEntryPointSuccess && found != nullptr;
}

}  // namespace lathe::cuda
