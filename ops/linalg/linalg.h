// Linear algebra over batches of small matrices, with PyTorch's names and defaults (torch.linalg).
// solve.cpp, determinant.cpp, decompositions.cpp, least_squares.cpp, matrix_functions.cpp: checks
// and gradients; linalg_eigen.cpp: the CPU's kernels.
//   a   […,m,n]: the last two dimensions are a matrix, the leading ones count matrices. Any
//       strides; a batch of no matrices and matrices of no rows are legal.
// Factorisations and solutions are computed in f64 on the CPU, also for f32 and for tensors on a
// GPU: those are copied to the host and back, which waits for the GPU. Products of the results, as
// in pinv, lstsq and gradients, are computed in the inputs' dtype.
// dtypes: f32, f64.   grad: every floating input, twice differentiable unless said otherwise.
// amp: float.
// throws: ShapeError, DTypeError, DeviceError; ValueError that names the matrix of the batch.
#pragma once

#include <string_view>

#include "lathe/core/tensor.h"
#include "lathe/ops/distance.h"

namespace lathe::linalg {

using lathe::vector_norm;

struct CholeskyOptions {
  bool upper = false;  // true: the result is u with a = u^T u
};
/// The lower triangular l with a = l l^T. Reads only the lower triangle of a (the upper one with
/// options.upper).
///   a  […,n,n], symmetric   →  […,n,n]
/// grad: a; the gradient is a symmetric matrix, although only one triangle is read.
/// throws: ValueError if a matrix is not positive definite. The message names the order of the
/// first leading minor that is not positive (or is NaN).
LATHE_API Tensor cholesky(const Tensor& a, const CholeskyOptions& options = {});

struct SolveOptions {
  bool left = true;  // false: solves x a = b
};
/// The x with a x = b, by an LU factorisation with partial pivoting.
///   a  […,n,n]     b  […,n,k], or […,n] with a's leading dimensions, or [n]     →  b's shape
/// The leading dimensions of a and b broadcast.
/// throws: ValueError if a matrix is singular: a pivot is exactly 0.
LATHE_API Tensor solve(const Tensor& a, const Tensor& b, const SolveOptions& options = {});

struct SolveTriangularOptions {
  bool upper = false;          // which triangle of a is read
  bool left = true;            // false: solves x a = b
  bool unitriangular = false;  // true: the diagonal counts as 1 and is not read
};
/// The x with a x = b for a triangular a. A 0 on the diagonal gives infinities or NaN.
///   a  […,n,n]     b  […,n,k]     →  […,n,k]; the leading dimensions broadcast
LATHE_API Tensor solve_triangular(const Tensor& a, const Tensor& b,
                                  const SolveTriangularOptions& options = {});

/// The inverse. To solve an equation, solve() is more exact and faster.
///   a  […,n,n]   →  […,n,n]
/// throws: ValueError if a matrix is singular: a pivot is exactly 0.
LATHE_API Tensor inv(const Tensor& a);

/// The determinant; 1 for a matrix of no rows.
///   a  […,n,n]   →  […]
/// grad: a, also of a singular matrix; the second derivative needs an invertible one.
LATHE_API Tensor det(const Tensor& a);

struct Slogdet {
  Tensor sign, logabsdet;  // […]: det = sign * exp(logabsdet)
};
/// The determinant as its sign and the logarithm of its absolute value, which do not overflow. A
/// singular matrix has sign 0 and logabsdet -inf.
///   a  […,n,n]
/// grad: a, through logabsdet; sign is a constant. The backward pass throws ValueError for a
/// singular matrix.
LATHE_API Slogdet slogdet(const Tensor& a);

struct QrOptions {
  bool complete = false;  // PyTorch's mode = "complete": q is […,m,m] and r […,m,n]
};
struct Qr {
  Tensor q, r;  // […,m,k] with orthonormal columns; […,k,n], upper triangular; k = min(m, n)
};
/// a = q r, by Householder reflections. r's diagonal may be negative, as LAPACK's.
/// throws: ValueError in the backward pass if options.complete is set and m > n, because a does not
/// determine q then.
LATHE_API Qr qr(const Tensor& a, const QrOptions& options = {});

struct SvdOptions {
  bool full_matrices = true;  // false: u is […,m,k] and vh […,k,n], k = min(m, n)
};
struct Svd {
  Tensor u, s, vh;  // […,m,m]; […,k], descending; […,n,n]
};
/// The singular value decomposition a = u diag(s) vh, by Jacobi rotations.
/// grad: a. Gradients of u and vh exist if the singular values differ, and are meaningful if the
/// loss does not depend on the signs of singular vectors. With full_matrices, gradients of u's
/// columns and vh's rows after the first min(m, n) are ignored.
/// throws: ValueError for NaN and infinity.
LATHE_API Svd svd(const Tensor& a, const SvdOptions& options = {});

struct EighOptions {
  bool upper = false;  // PyTorch's UPLO = "U": reads the upper triangle
};
struct Eigh {
  Tensor eigenvalues, eigenvectors;  // […,n], ascending; […,n,n], in columns
};
/// Eigenvalues and eigenvectors of symmetric matrices. Reads only the lower triangle (the upper one
/// with options.upper). A matrix with NaN or infinity has NaN results.
///   a  […,n,n]
/// grad: a; the gradient is a symmetric matrix. A gradient of eigenvectors exists if the
/// eigenvalues differ, and is meaningful if the loss does not depend on the signs of eigenvectors.
LATHE_API Eigh eigh(const Tensor& a, const EighOptions& options = {});

/// Singular values: svd(a).s.
///   a  […,m,n]   →  […,min(m,n)], descending
/// grad: a, also where singular values repeat; twice if they differ and, unless m = n, none is 0.
/// throws: ValueError for NaN and infinity.
LATHE_API Tensor svdvals(const Tensor& a);

/// Eigenvalues of symmetric matrices: eigh(a, options).eigenvalues.
///   a  […,n,n]   →  […,n], ascending
/// grad: a, also where eigenvalues repeat; the gradient is a symmetric matrix. Twice if the
/// eigenvalues differ.
LATHE_API Tensor eigvalsh(const Tensor& a, const EighOptions& options = {});

struct MatrixRankOptions {
  // Singular values above max(atol, rtol * the largest one) count. An rtol below 0 stands for the
  // default: max(m, n) * epsilon of the dtype, or 0 if atol is set. NumPy's tol is
  // {.atol = tol, .rtol = 0}.
  double atol = 0, rtol = -1;
  bool hermitian = false;  // true: a is symmetric; its lower triangle is read, and |eigenvalues|
                           // stand for the singular values, which is faster
};
/// The rank of each matrix: how many singular values count.
///   a  […,m,n]   →  i64 […]
/// grad: none.   throws: ValueError for NaN and infinity; ShapeError for hermitian matrices that
/// are not square.
LATHE_API Tensor matrix_rank(const Tensor& a, const MatrixRankOptions& options = {});

struct PinvOptions {
  // Singular values up to max(atol, rtol * the largest one) count as 0. An rtol below 0 stands for
  // the default: max(m, n) * epsilon of the dtype, or 0 if atol is set.
  double atol = 0, rtol = -1;
};
/// The pseudo-inverse (Moore-Penrose), from the singular value decomposition.
///   a  […,m,n]   →  […,n,m]
/// grad: a, as long as its rank does not change.   throws: ValueError for NaN and infinity.
LATHE_API Tensor pinv(const Tensor& a, const PinvOptions& options = {});

struct LstsqOptions {
  double rcond = -1;  // singular values up to rcond * the largest one count as 0; below 0:
                      // max(m, n) * epsilon of the dtype
};
struct Lstsq {
  Tensor solution;   // […,n,k]: of all x with the least |a x - b|, the one with the least |x|
  Tensor residuals;  // […,k]: the squares of |a x - b|; shape [0] unless m > n and every rank is n
  Tensor rank;       // i64 […]
  Tensor singular_values;  // […,min(m,n)], of a
};
/// Least squares, from the singular value decomposition, as PyTorch's driver gelsd.
///   a  […,m,n]     b  […,m,k]; the leading dimensions broadcast
/// grad: a and b, through solution and residuals.   throws: ValueError for NaN and infinity.
LATHE_API Lstsq lstsq(const Tensor& a, const Tensor& b, const LstsqOptions& options = {});

/// The matrix exponential, by a Padé approximant with scaling and squaring. A matrix with NaN or
/// infinity gives NaN.
///   a  […,n,n]   →  […,n,n]
/// ref: Higham 2005, doi:10.1137/04061101X.
LATHE_API Tensor matrix_exp(const Tensor& a);

struct MatrixNormOptions {
  Dims dim = {-2, -1};  // the rows and the columns
  bool keepdim = false;
};
/// A norm of matrices.
///   ord  "fro": the root of the sum of squares; "nuc": the sum of the singular values
///        2, -2: the largest, the smallest singular value
///        1, -1: the largest, the smallest sum of |x| of a column; inf, -inf: of a row
///   →    a's shape without `dim`; with keepdim these dimensions stay, with size 1
/// throws: ValueError unless ord is one of these, and for NaN or infinity in a if ord needs
/// singular values; ShapeError for the largest or smallest of no values.
LATHE_API Tensor matrix_norm(const Tensor& a, std::string_view ord = "fro",
                             const MatrixNormOptions& options = {});
LATHE_API Tensor matrix_norm(const Tensor& a, double ord, const MatrixNormOptions& options = {});

}  // namespace lathe::linalg
