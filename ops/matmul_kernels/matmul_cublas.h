// A product of tensors by cuBLASLt, for the ops that add something of their own to it. Built on
// matmul_plan_cublas.h, with plans kept by shape. For *_cublas.cpp files only.
#pragma once

#include "lathe/core/tensor.h"
#include "lathe/ops/matmul_kernels/matmul_plan_cublas.h"

namespace lathe::cuda {

/// What a product's kernel does besides multiplying, and the tensors that it reads or writes for
/// it.
struct MatmulExtras {
  MatmulEpilogue epilogue = MatmulEpilogue::kNone;
  Tensor bias = {};  // dense; read, or with a gradient epilogue or kRightSums written
  Tensor kept = {};  // rows `kept_ld` apart, as cuBLAS wants them
};

/// True if cuBLAS can compute y = a * b with this many terms: not for integers, nor if y or the sum
/// is empty.
bool is_cublas_product(const Tensor& y, int64_t terms);

/// The tensor itself if cuBLAS can read it, else a copy that it can read.
Tensor readable_matrix(const Tensor& t);
Tensor readable_bias(const Tensor& bias);

/// y = a * b and what `extras` says; y is row-major, a and b are readable. cuBLAS sees all of them
/// transposed: y' = b' * a'. Returns false if cuBLAS cannot compute it; the reason is logged,
/// unless the epilogue is one that few shapes have. In deterministic mode a plan that fails is an
/// error.
bool cublas_multiply(const Tensor& y, const Tensor& a, const Tensor& b,
                     const MatmulExtras& extras = {});

/// Memory for what kRelu or kGelu keeps of y [n,out]: bits in bytes, or the sums before the gelu.
Tensor make_kept(MatmulEpilogue epilogue, const Tensor& y);

}  // namespace lathe::cuda
