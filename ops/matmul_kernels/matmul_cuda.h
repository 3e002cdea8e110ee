// Matrix products on the GPU by our own kernel (matmul_cuda.cu) instead of cuBLAS's: for integers,
// for empty sums, for what cuBLAS refuses, and for tests.
#pragma once

#include "lathe/core/tensor.h"

namespace lathe::cuda {

// As matmul and linear in matmul.h.
Tensor portable_matmul(const Tensor& a, const Tensor& b);
Tensor portable_linear(const Tensor& x, const Tensor& w, const Tensor& bias);

}  // namespace lathe::cuda
