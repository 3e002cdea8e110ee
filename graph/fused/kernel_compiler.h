// Compiles the text of fused kernels by NVRTC, NVIDIA's compiler as a library, which needs no GPU.
// It is opened when it is first called, as NVIDIA's other libraries are.
#pragma once

#include <string>

#include "lathe/core/config.h"

namespace lathe::jit {

/// "sm_90" gives the machine code of that architecture (CUBIN), "compute_80" gives PTX, which the
/// driver compiles for any GPU from sm_80 on. Compiled as the ops' own kernels are: a * b + c is
/// not contracted. The text may include what kernel_text.h lists, and nothing else.
/// throws: NoCudaError where NVRTC is absent, or this build has no CUDA; CudaError with NVRTC's log
/// and the text, if it cannot be compiled.
LATHE_API std::string compile_kernels(const std::string& text, const std::string& architecture);

/// What to compile for a GPU of this compute capability: its machine code, "sm_90", if NVRTC knows
/// the GPU; else PTX for the newest that it knows and that is older, "compute_120".
/// throws: NoCudaError; CudaError if all that NVRTC knows are newer.
LATHE_API std::string kernel_target(int major, int minor);

}  // namespace lathe::jit
