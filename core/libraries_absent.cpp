// The part of core/libraries_cuda.cpp in builds without NVIDIA's libraries: no CUDA, or an emulated
// GPU.
#include "lathe/core/cuda_backend.h"

namespace lathe::cuda {

std::vector<Library> libraries() { return {}; }
void warn_of_other_libraries() {}

}  // namespace lathe::cuda
