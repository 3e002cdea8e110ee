// Ranges for NVIDIA's tools, by NVTX's header: it loads the tool's library, if the program runs
// under one, and does nothing otherwise. Contract: cuda_backend.h.
#include <nvtx3/nvToolsExt.h>

#include "lathe/core/cuda_backend.h"

namespace lathe::cuda {

void push_tool_range(const char* name) noexcept { nvtxRangePushA(name); }
void pop_tool_range() noexcept { nvtxRangePop(); }

}  // namespace lathe::cuda
