// Eigen's matrix product for the build's baseline. Contract: gemm_kernel.h.
#define Eigen EigenForBaseline
#include "lathe/ops/matmul_kernels/gemm_kernel_eigen.h"

namespace lathe::cpu {

GemmKernels gemm_kernels_base() { return {eigen_gemm<float>, eigen_gemm<double>}; }

}  // namespace lathe::cpu
