// NVIDIA's libraries that this build calls. Each is opened when it is first called, because
// cuBLASLt alone takes 65 ms and 200 MB, and a machine without a GPU has none of them. Their tables
// of functions: cublas_functions.h, cudnn_functions.h, curand_functions.h.
#pragma once

#include <span>
#include <string>

#include "lathe/core/shared_library.h"

namespace lathe::cuda {

struct CudaLibrary {
  SharedLibrary& library;
  void (*load)();  // finds all functions that are called; NoCudaError if it cannot
};

CudaLibrary cudnn_library();
CudaLibrary cublas_library();
CudaLibrary curand_library();  // only if kHasCudaLibraries

/// The system's loader; over the emulated GPU the loader that tests/emulation defines.
LibraryLoader& library_loader();
LibraryLoader& emulated_loader();

/// Loads them in this order. Returns why one of them cannot be loaded, or "" if all are.
std::string load_problem(std::span<const CudaLibrary> needed);

}  // namespace lathe::cuda
