// Large f32 matrix products in a build without oneDNN, by Eigen. Contract: gemm.h.
#include "lathe/ops/matmul_kernels/gemm.h"

namespace lathe::cpu {

void fast_gemm(const MatrixRef<float>& c, const MatrixRef<const float>& a,
               const MatrixRef<const float>& b, GemmMode mode) {
  gemm_by_rows(c, a, b, mode);
}

}  // namespace lathe::cpu
