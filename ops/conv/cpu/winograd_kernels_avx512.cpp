// Winograd's inner loops for AVX-512. Contract: winograd_kernels.h.
#ifndef __AVX512F__
#  error "winograd_kernels_avx512.cpp needs the options that ops/conv/cpu/CMakeLists.txt sets"
#endif

#include "lathe/ops/conv/cpu/winograd_vector.h"

namespace lathe::cpu {

WinogradKernelSet winograd_kernels_avx512() { return kKernels; }

}  // namespace lathe::cpu
