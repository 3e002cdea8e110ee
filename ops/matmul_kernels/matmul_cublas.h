// A product of tensors by cuBLASLt, for the ops that add something of their own to it: over
// matmul_plan_cublas.h, with plans kept by shape. For *_cublas.cpp.
#pragma once

#include "lathe/core/tensor.h"
#include "lathe/ops/matmul_kernels/matmul_plan_cublas.h"

namespace lathe::cuda {

/// What a product's kernel does besides, and the tensors that it reads or writes for that.
struct MatmulExtras {
  MatmulEpilogue epilogue = MatmulEpilogue::kNone;
  Tensor bias = {};  // dense; read, or with a gradient or kRightSums written
  Tensor kept = {};  // rows `kept_ld` apart, as cuBLAS wants them
};

/// May cuBLAS compute y = a * b with so many terms? Not of integers, and not where it is empty.
bool is_cublas_product(const Tensor& y, int64_t terms);

/// `t`, or a copy that cuBLAS can read.
Tensor readable_matrix(const Tensor& t);
Tensor readable_bias(const Tensor& bias);

/// y = a * b, y row-major, a and b readable, and what `extras` says. Transposed, as cuBLAS sees all
/// of them: y' = b' * a'. False: cuBLAS cannot. The reason is logged unless the epilogue is one
/// that few shapes have. In deterministic mode a plan that fails is an error.
bool cublas_multiply(const Tensor& y, const Tensor& a, const Tensor& b,
                     const MatmulExtras& extras = {});

/// Memory for what kRelu or kGelu is to keep of y [n,out]: bytes of bits, or y's sums.
Tensor make_kept(MatmulEpilogue epilogue, const Tensor& y);

}  // namespace lathe::cuda
