// Eigen's matrix product for AVX2 + FMA. Contract: gemm_kernel.h.
#ifndef __FMA__
#  error "gemm_kernel_avx2.cpp needs -mavx2 -mfma, set in ops/CMakeLists.txt"
#endif

#define Eigen EigenForAvx2
#include "lathe/ops/matmul_kernels/gemm_kernel_eigen.h"

namespace lathe::cpu {

GemmKernels gemm_kernels_avx2() { return {eigen_gemm<float>, eigen_gemm<double>}; }

}  // namespace lathe::cpu
