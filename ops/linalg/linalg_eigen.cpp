// The kernels of linalg.h, by Eigen and two loops of our own. Contract: linalg_eigen.h.

// Note [Names of header-only libraries] in core/json.h.
#define Eigen EigenForBaseline
#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <limits>

#include "lathe/core/thread_pool.h"
#include "lathe/ops/linalg/linalg_eigen.h"

namespace lathe::cpu {

namespace {

using Matrix = Eigen::MatrixXd;
using Vector = Eigen::VectorXd;
using RowMatrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// Matrix i of a batch.
Eigen::Map<RowMatrix> at(const Tensor& t, int64_t i) {
  const int64_t m = t.dim(1), n = t.dim(2);
  return {t.data<double>() + i * m * n, m, n};
}
/// Vector i of a batch.
Eigen::Map<Vector> row(const Tensor& t, int64_t i) {
  return {t.data<double>() + i * t.dim(1), t.dim(1)};
}

/// f(i) for each matrix of a.
template <class F>
void each_matrix(const Tensor& a, F f) {
  const double m = static_cast<double>(a.dim(1)), n = static_cast<double>(a.dim(2));
  const double flops = 10 * m * n * std::min(m, n) + 1;  // an SVD takes more
  constexpr double kWorthAThread = 20'000;               // some 10 us
  const auto grain = std::max<int64_t>(1, static_cast<int64_t>(kWorthAThread / flops));
  parallel_for(a.dim(0), grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) f(i);
  });
}

Failures none(const Tensor& a) { return Failures(static_cast<size_t>(a.dim(0)), 0); }

/// Of one matrix: 0, or the order of the leading minor that is not positive. Eigen's LLT does not
/// say which one.
int64_t cholesky(Eigen::Map<RowMatrix> l, Eigen::Map<RowMatrix> a) {
  const int64_t n = a.rows();
  for (int64_t k = 0; k < n; ++k) {
    const double square = a(k, k) - l.row(k).head(k).squaredNorm();
    if (!(square > 0)) return k + 1;
    l(k, k) = std::sqrt(square);
    for (int64_t i = k + 1; i < n; ++i) {
      l(i, k) = (a(i, k) - l.row(i).head(k).dot(l.row(k).head(k))) / l(k, k);
    }
  }
  return 0;
}

Matrix exponential(const Matrix& a) {
  const int64_t n = a.rows();
  if (!a.allFinite()) return Matrix::Constant(n, n, kNan);
  constexpr double kLargest = 5.371920351148152;  // 1-norm up to which degree 13 is exact
  const double norm = a.cwiseAbs().colwise().sum().maxCoeff();
  if (!std::isfinite(norm)) return Matrix::Constant(n, n, kNan);
  const int squarings =
      norm > kLargest ? static_cast<int>(std::ceil(std::log2(norm / kLargest))) : 0;
  constexpr double b[] = {64764752532480000,
                          32382376266240000,
                          7771770303897600,
                          1187353796428800,
                          129060195264000,
                          10559470521600,
                          670442572800,
                          33522128640,
                          1323241920,
                          40840800,
                          960960,
                          16380,
                          182,
                          1};
  const Matrix one = Matrix::Identity(n, n), x = a * std::ldexp(1.0, -squarings);
  const Matrix x2 = x * x, x4 = x2 * x2, x6 = x4 * x2;
  const Matrix high_odd = b[13] * x6 + b[11] * x4 + b[9] * x2;
  const Matrix low_odd = b[7] * x6 + b[5] * x4 + b[3] * x2 + b[1] * one;
  const Matrix high_even = b[12] * x6 + b[10] * x4 + b[8] * x2;
  const Matrix low_even = b[6] * x6 + b[4] * x4 + b[2] * x2 + b[0] * one;
  const Matrix odd = x * (x6 * high_odd + low_odd), even = x6 * high_even + low_even;
  Matrix y = Eigen::PartialPivLU<Matrix>(even - odd).solve(even + odd);
  for (int i = 0; i < squarings; ++i) y = y * y;
  return y;
}

}  // namespace

Failures batched_cholesky(const Tensor& l, const Tensor& a) {
  Failures failures = none(a);
  each_matrix(a,
              [&](int64_t i) { failures[static_cast<size_t>(i)] = cholesky(at(l, i), at(a, i)); });
  return failures;
}

Failures batched_solve(const Tensor& x, const Tensor& a, const Tensor& b) {
  Failures failures = none(a);
  if (x.numel() == 0) return failures;
  each_matrix(a, [&](int64_t i) {
    const Eigen::PartialPivLU<Matrix> lu{Matrix(at(a, i))};
    const auto pivots = lu.matrixLU().diagonal();
    for (int64_t k = pivots.size(); k-- > 0;) {
      if (pivots[k] == 0) failures[static_cast<size_t>(i)] = k + 1;
    }
    if (failures[static_cast<size_t>(i)] == 0) at(x, i) = lu.solve(Matrix(at(b, i)));
  });
  return failures;
}

void batched_solve_triangular(const Tensor& x, const Tensor& a, const Tensor& b, bool upper,
                              bool unitriangular) {
  if (x.numel() == 0) return;
  each_matrix(a, [&](int64_t i) {
    const auto t = at(a, i);
    auto y = at(x, i);
    y = at(b, i);
    const int64_t n = t.rows();
    for (int64_t step = 0; step < n; ++step) {
      const int64_t r = upper ? n - 1 - step : step;  // rows above (below) it are solved
      for (int64_t done = 0; done < step; ++done) {
        const int64_t c = upper ? n - 1 - done : done;
        y.row(r) -= t(r, c) * y.row(c);
      }
      if (!unitriangular) y.row(r) /= t(r, r);
    }
  });
}

void batched_determinant(const Tensor& det, const Tensor& sign, const Tensor& logabsdet,
                         const Tensor& a) {
  double *const d = det.data<double>(), *const s = sign.data<double>(),
                *const l = logabsdet.data<double>();
  each_matrix(a, [&](int64_t i) {
    d[i] = s[i] = 1;
    if (a.dim(1) == 0) return;
    const Eigen::PartialPivLU<Matrix> lu{Matrix(at(a, i))};
    d[i] = s[i] = static_cast<double>(lu.permutationP().determinant());
    const auto pivots = lu.matrixLU().diagonal();
    for (int64_t k = 0; k < pivots.size(); ++k) {
      const double pivot = pivots[k];
      d[i] *= pivot;
      s[i] *= pivot > 0 ? 1 : pivot < 0 ? -1 : pivot;  // 0 and NaN stay
      l[i] += std::log(std::fabs(pivot));
    }
  });
}

void batched_cofactors(const Tensor& c, const Tensor& a) {
  if (c.numel() == 0) return;
  each_matrix(a, [&](int64_t i) {
    const Matrix x = at(a, i);
    if (!x.allFinite()) return at(c, i).setConstant(kNan), void();
    // a = u s v^T has the cofactors det(u) det(v) u diag(products of the other s) v^T.
    const Eigen::JacobiSVD<Matrix> svd(x, Eigen::ComputeFullU | Eigen::ComputeFullV);
    const Vector s = svd.singularValues();
    Vector others = Vector::Ones(s.size());
    for (int64_t k = 0; k < s.size(); ++k) {
      for (int64_t j = 0; j < s.size(); ++j) others[k] *= j == k ? 1 : s[j];
    }
    const double sign = Eigen::PartialPivLU<Matrix>(svd.matrixU()).determinant() *
                        Eigen::PartialPivLU<Matrix>(svd.matrixV()).determinant();
    at(c, i) =
        (sign > 0 ? 1 : -1) * (svd.matrixU() * others.asDiagonal() * svd.matrixV().transpose());
  });
}

void batched_qr(const Tensor& q, const Tensor& r, const Tensor& a) {
  const int64_t m = a.dim(1), n = a.dim(2), k = q.dim(2);
  each_matrix(a, [&](int64_t i) {
    if (m == 0 || n == 0) return at(q, i).setIdentity(), void();
    const Eigen::HouseholderQR<Matrix> qr{Matrix(at(a, i))};
    const Matrix first = qr.householderQ() * Matrix::Identity(m, k);
    at(q, i) = first;
    const Matrix upper = qr.matrixQR().topRows(k).template triangularView<Eigen::Upper>();
    at(r, i) = upper;
  });
}

void batched_eigh(const Tensor& w, const Tensor& v, const Tensor& a) {
  if (v.numel() == 0) return;
  each_matrix(a, [&](int64_t i) {
    const Matrix x = at(a, i);
    const Matrix lower = x.triangularView<Eigen::Lower>();
    const Eigen::SelfAdjointEigenSolver<Matrix> solver(
        lower.allFinite() ? lower : Matrix(Matrix::Zero(1, 1)));
    if (!lower.allFinite() || solver.info() != Eigen::Success) {
      row(w, i).setConstant(kNan);
      at(v, i).setConstant(kNan);
      return;
    }
    row(w, i) = solver.eigenvalues();
    at(v, i) = solver.eigenvectors();
  });
}

void batched_svd(const Tensor& u, const Tensor& s, const Tensor& vh, const Tensor& a) {
  const int64_t k = std::min(a.dim(1), a.dim(2));
  const bool thin = u.dim(2) == k && vh.dim(1) == k;
  const unsigned how =
      thin ? Eigen::ComputeThinU | Eigen::ComputeThinV : Eigen::ComputeFullU | Eigen::ComputeFullV;
  each_matrix(a, [&](int64_t i) {
    if (k == 0) {
      at(u, i).setIdentity();
      at(vh, i).setIdentity();
      return;
    }
    const Eigen::JacobiSVD<Matrix> svd(Matrix(at(a, i)), how);
    at(u, i) = svd.matrixU();
    row(s, i) = svd.singularValues();
    at(vh, i) = svd.matrixV().transpose();
  });
}

void batched_matrix_exp(const Tensor& y, const Tensor& a) {
  if (y.numel() == 0) return;
  each_matrix(a, [&](int64_t i) { at(y, i) = exponential(at(a, i)); });
}

}  // namespace lathe::cpu
