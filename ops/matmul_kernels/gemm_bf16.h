// Products of bf16 matrices by the processor's own bf16 instructions: gemm_bf16_dnnl.cpp, or
// gemm_bf16_none.cpp in a build without oneDNN. Included by matmul_cpu.cpp.
#pragma once

#include "lathe/core/tensor.h"

namespace lathe::cpu {

/// True if oneDNN multiplies bf16 in tile registers (AMX). False where it cannot be loaded.
bool multiplies_tiles() noexcept;

/// a * b, plus the bias on every row. Sums are kept in f32 and rounded once.
///   a  [m,k]     b  [k,n]     bias  [n] or undefined     →  [m,n]
///   a  [B,m,k]   b  [B,k,n]   no bias                    →  [B,m,n]
/// dtypes: bf16. Any strides; matrices that are dense, as they are or transposed, are not copied.
/// The instructions take subnormal numbers for zero. The order of summation may depend on the
/// number of threads.
/// → undefined if the product of f32 copies takes less time here, or if the processor or this build
/// has no bf16 products; then nothing was computed
/// throws: Error where oneDNN fails.
Tensor bf16_product(const Tensor& a, const Tensor& b, const Tensor& bias);

}  // namespace lathe::cpu
