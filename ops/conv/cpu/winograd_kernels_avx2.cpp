// Winograd's inner loops for AVX2 + FMA. Contract: winograd_kernels.h.
#ifndef __FMA__
#  error "winograd_kernels_avx2.cpp needs the options that ops/conv/cpu/CMakeLists.txt sets"
#endif

#include "lathe/ops/conv/cpu/winograd_vector.h"

namespace lathe::cpu {

WinogradKernelSet winograd_kernels_avx2() { return kKernels; }

}  // namespace lathe::cpu
