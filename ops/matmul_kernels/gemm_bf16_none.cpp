// Without oneDNN there are no bf16 products. Contract: gemm_bf16.h.
#include "lathe/ops/matmul_kernels/gemm_bf16.h"

namespace lathe::cpu {

bool multiplies_tiles() noexcept { return false; }
Tensor bf16_product(const Tensor&, const Tensor&, const Tensor&) { return {}; }

}  // namespace lathe::cpu
