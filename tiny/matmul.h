// Matrix products: the op in which a network spends its time. A convolution becomes one, too.
#pragma once

#include "pointwise.h"
#include "views.h"

namespace tiny {

/// c[M,N] += a[M,K] * b[K,N], all row-major. The loop over k is outside of that over n, so the
/// inner one walks along a row of b and a row of c, and neighbours in memory are read together.
inline void add_product(const Tensor& a, const Tensor& b, Tensor& c) {
  const int64_t M = a.dim(0), K = a.dim(1), N = b.dim(1);
  for (int64_t m = 0; m < M; ++m)
    for (int64_t k = 0; k < K; ++k) {
      const double factor = a.data()[m * K + k];
      const double* row = b.data() + k * N;
      double* sum = c.data() + m * N;
      for (int64_t n = 0; n < N; ++n) sum[n] += factor * row[n];
    }
}

/// y[M,N] = a[M,K] * b[K,N].
///
/// Its gradient: y_mn = sum over k of a_mk * b_kn, so dy_mn/da_mk = b_kn, and
///   da_mk = sum over n of dy_mn * b_kn,  which is  da = dy * transposed b
///   db_kn = sum over m of a_mk * dy_mn,  which is  db = transposed a * dy
/// throws: ShapeError unless a is [M,K] and b [K,N].
inline Tensor matmul(const Tensor& a, const Tensor& b) {
  check<ShapeError>(a.ndim() == 2 && b.ndim() == 2 && a.dim(1) == b.dim(0),
                    "matmul: a must be [M,K] and b [K,N], got ", a.shape(), " and ", b.shape());
  Tensor y({a.dim(0), b.dim(1)});
  add_product(contiguous(detach(a)), contiguous(detach(b)), y);
  return record("matmul", y, {a, b},
                [a = Saved(a), b = Saved(b)](const Tensor& dy, const Needs& need) {
                  return std::vector{need[0] ? matmul(dy, transpose(b.get())) : Tensor(),
                                     need[1] ? matmul(transpose(a.get()), dy) : Tensor()};
                });
}

/// y[N,out] = x[N,in] * transposed w[out,in] + b[out]. It is made of ops, so it has a gradient.
/// throws: ShapeError.
inline Tensor linear(const Tensor& x, const Tensor& w, const Tensor& b) {
  return matmul(x, transpose(w)) + b;
}

}  // namespace tiny

// What the real one adds, and why
// - ops/matmul_kernels/gemm.h goes through the matrices in tiles that fit caches and registers, and
//   does not copy a transposed one. ops/matmul_kernels/matmul_cublas.cpp calls cuBLAS.
