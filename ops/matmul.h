// Matrix products. matmul.cpp: shapes and gradients. matmul_kernels/: matmul_cpu.cpp (dtypes and
// strides, over gemm.h), matmul_cublas.cpp, and matmul_cuda.cu for what cuBLAS lacks.
#pragma once

#include "lathe/core/tensor.h"

namespace lathe {

/// Product of vectors, matrices or batches of matrices.
///   [k] x [k] → 0-d           [m,k] x [k] → [m]           [k] x [k,n] → [n]
///   [m,k] x [k,n] → [m,n]     […,m,k] x […,k,n] → […,m,n], the batch dimensions broadcast
/// k = 0 gives 0. Also a.matmul(b).
/// dtypes: floats, summed in f32 or wider; integers, summed in i64 and wrapped; the same for both
/// operands.
/// grad: a, b, twice differentiable.   amp: half.   throws: ShapeError, DTypeError, DeviceError.
LATHE_API Tensor matmul(const Tensor& a, const Tensor& b);

/// matmul of batches only, without broadcasting: [B,m,k] x [B,k,n] → [B,m,n].
LATHE_API Tensor bmm(const Tensor& a, const Tensor& b);

/// matmul of two matrices only: [m,k] x [k,n] → [m,n].
LATHE_API Tensor mm(const Tensor& a, const Tensor& b);
/// A matrix times a vector: [m,k] x [k] → [m].
LATHE_API Tensor mv(const Tensor& a, const Tensor& x);

struct AddmmOptions {
  Scalar beta = 1, alpha = 1;
};
/// beta * input + alpha * (a x b). With beta = 0, addmm does not read input: a NaN in input has no
/// effect, and input gets no gradient.
///   a  [m,k]     b  [k,n]     input  a shape that broadcasts to [m,n]     →  [m,n]
/// dtypes: as matmul, the same for all three tensors; for integers, beta and alpha must be
/// integers.
/// grad: input, a, b, twice differentiable.   amp: half.
/// throws: ShapeError, DTypeError, DeviceError.
LATHE_API Tensor addmm(const Tensor& input, const Tensor& a, const Tensor& b,
                       const AddmmOptions& options = {});

/// addmm of batches: beta * input + alpha * bmm(a, b).
///   a  [B,m,k]   b  [B,k,n]   input  a shape that broadcasts to [B,m,n]   →  [B,m,n]
/// Otherwise as addmm.
LATHE_API Tensor baddbmm(const Tensor& input, const Tensor& a, const Tensor& b,
                         const AddmmOptions& options = {});

/// y = x * w^T + bias over the last dimension of x.
///   x  […,in]     w  [out,in]     bias  [out] or undefined     →  […,out]
/// dtypes: f16, bf16, f32, f64, all the same.
/// grad: x, w, bias, twice differentiable.   amp: half.
/// throws: ShapeError, DTypeError, DeviceError.
LATHE_API Tensor linear(const Tensor& x, const Tensor& w, const Tensor& bias = {});

/// The gradients of linear's parameters: dw = dy^T * x, db = the sums of dy's columns.
struct LinearParamGrads {
  Tensor dw, db;
};

namespace cpu {
/// [m,k] x [k,n], or [B,m,k] x [B,k,n]; any strides.
Tensor matmul(const Tensor& a, const Tensor& b);
/// [n,in] x [out,in] → [n,out].
Tensor linear(const Tensor& x, const Tensor& w, const Tensor& bias);
/// dy [n,out], x [n,in].
LinearParamGrads linear_param_grads(const Tensor& dy, const Tensor& x);
}  // namespace cpu
namespace cuda {
Tensor matmul(const Tensor& a, const Tensor& b);
Tensor linear(const Tensor& x, const Tensor& w, const Tensor& bias);
LinearParamGrads linear_param_grads(const Tensor& dy, const Tensor& x);
}  // namespace cuda

}  // namespace lathe
