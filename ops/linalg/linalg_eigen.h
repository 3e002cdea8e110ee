// The CPU's kernels of linalg.h (linalg_eigen.cpp), by Eigen. Tensors are dense f64 on the CPU,
// [B,…]; results come first. The matrices of a batch are shared among threads. No kernel reads or
// writes anything if the matrices of the result are empty.
#pragma once

#include <cstdint>
#include <vector>

#include "lathe/core/tensor.h"

namespace lathe::cpu {

/// Per matrix 0, or what its kernel failed at, counted from 1.
using Failures = std::vector<int64_t>;

/// l [B,n,n] of a's lower triangle. A failure is the order of a leading minor.
Failures batched_cholesky(const Tensor& l, const Tensor& a);
/// x [B,n,k] from a [B,n,n] and b [B,n,k]. A failure is the pivot that is 0.
Failures batched_solve(const Tensor& x, const Tensor& a, const Tensor& b);
void batched_solve_triangular(const Tensor& x, const Tensor& a, const Tensor& b, bool upper,
                              bool unitriangular);
/// det, sign and logabsdet [B].
void batched_determinant(const Tensor& det, const Tensor& sign, const Tensor& logabsdet,
                         const Tensor& a);
/// c [B,n,n]: the gradient of the determinant, also of singular matrices.
void batched_cofactors(const Tensor& c, const Tensor& a);
/// q [B,m,k] and r [B,k,n], k = min(m, n), or m for q's other form.
void batched_qr(const Tensor& q, const Tensor& r, const Tensor& a);
/// w [B,n] ascending, v [B,n,n]. Reads the lower triangle of a.
void batched_eigh(const Tensor& w, const Tensor& v, const Tensor& a);
/// u [B,m,m], s [B,k], vh [B,n,n]; or u [B,m,k], vh [B,k,n].
void batched_svd(const Tensor& u, const Tensor& s, const Tensor& vh, const Tensor& a);
void batched_matrix_exp(const Tensor& y, const Tensor& a);

}  // namespace lathe::cpu
