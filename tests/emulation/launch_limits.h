// What a GPU of compute capability 9.0 refuses of a launch.
// source: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability" and "Kernel
// Parameters".
#pragma once

#include <climits>
#include <cstddef>

#include "cuda_runtime_emulation.h"

namespace lathe::emulation {

inline constexpr unsigned kMostThreads = 1024;  // of a block
inline constexpr dim3 kMostOfBlock{1024, 1024, 64}, kMostOfGrid{INT_MAX, 65535, 65535};
/// Shared memory of a block, static and dynamic, of a kernel that has not asked for more, as none
/// of ours does.
inline constexpr size_t kMostSharedBytes = size_t{48} << 10;

/// cudaSuccess; cudaErrorInvalidConfiguration for a grid or block without threads or beyond the
/// limits; cudaErrorInvalidValue for more dynamic shared memory than there is. How much static
/// shared memory a kernel has is known when it runs: then the sum is looked at. Bytes of parameters
/// are looked at where the launch is compiled: kMostParameterBytes in cuda_runtime_emulation.h.
/// Registers are not known here: tests/ptx/executed_test.py holds the blocks that the same tests
/// launch against the registers in the machine code.
cudaError_t launch_problem(dim3 grid, dim3 block, size_t dynamic_shared_bytes);

}  // namespace lathe::emulation
