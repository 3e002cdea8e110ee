// Eigen's matrix product for AVX2 + FMA; compiled with -march=x86-64-v3. See gemm_kernel.h.
#define Eigen EigenForAvx2
#include "lathe/ops/gemm_kernel_eigen.h"

namespace lathe::cpu {

GemmKernels gemm_kernels_avx2() { return {eigen_gemm<float>, eigen_gemm<double>}; }

}  // namespace lathe::cpu
