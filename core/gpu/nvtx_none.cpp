// What stands in the place of nvtx_cuda.cpp in a build without NVTX's header. Contract:
// cuda_backend.h.
#include "lathe/core/cuda_backend.h"

namespace lathe::cuda {

void push_tool_range(const char*) noexcept {}
void pop_tool_range() noexcept {}

}  // namespace lathe::cuda
