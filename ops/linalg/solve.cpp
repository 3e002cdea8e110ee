// cholesky, solve, solve_triangular, inv: checks and gradients. Contracts: linalg.h.
#include "lathe/autograd/record.h"
#include "lathe/ops/autocast.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/diagonal.h"
#include "lathe/ops/linalg/linalg.h"
#include "lathe/ops/linalg/linalg_batch.h"
#include "lathe/ops/linalg/linalg_eigen.h"
#include "lathe/ops/matmul.h"
#include "lathe/ops/triangle.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"

namespace lathe::linalg {

using autograd::Needs;
using autograd::record;
using autograd::Saved;
using autograd::SavedOutput;

namespace {

/// The lower triangle with half of its diagonal: what a symmetric matrix has twice.
Tensor lower_half(const Tensor& x) {
  const Tensor half = mul(diagonal(x, {.dim1 = -2, .dim2 = -1}), 0.5);
  return sub(tril(x), diag_embed(half));
}

/// dA of a = l l^T, from dl (Murray 2016, arXiv:1602.07527).
Tensor cholesky_gradient(const Tensor& dl, const Tensor& l) {
  const Tensor inner = lower_half(matmul(transposed(l), dl));
  const Tensor left = solve_triangular(transposed(l), inner, {.upper = true});
  const Tensor da = solve_triangular(l, left, {.left = false});
  return mul(add(da, transposed(da)), 0.5);
}

/// solve() of square matrices and matrices of one batch, recorded as `op`. Errors begin with
/// `caller`, the op that the user called.
Tensor solve_matrices(const char* op, const char* caller, const Tensor& a, const Tensor& b) {
  const Tensor lhs = to_kernel(a), rhs = to_kernel(b);
  const Tensor solution = result_for(lhs, {b.dim(-2), b.dim(-1)});
  const cpu::Failures failures = cpu::batched_solve(solution, lhs, rhs);
  for (size_t i = 0; i < failures.size(); ++i) {
    LATHE_CHECK(ValueError, failures[i] == 0, caller, ": ", name_of(a, static_cast<int64_t>(i)),
                " is singular: pivot ", failures[i], " is 0 (a: ", a, ")");
  }
  Tensor x = from_kernel(solution, a);
  record(op, x, {a, b},
         [op, caller, a = Saved(a), x = SavedOutput(x)](const Tensor& dx, const Needs& need) {
           const Tensor db = solve_matrices(op, caller, transposed(a.get()), dx);
           Tensor da;
           if (need[0]) da = neg(matmul(db, transposed(x.get())));
           return Tensors{da, db};
         });
  return x;
}

Tensor solve_lower_or_upper(const Tensor& a, const Tensor& b, bool upper, bool unitriangular) {
  const Tensor lhs = to_kernel(a), rhs = to_kernel(b);
  const Tensor solution = result_for(lhs, {b.dim(-2), b.dim(-1)});
  cpu::batched_solve_triangular(solution, lhs, rhs, upper, unitriangular);
  Tensor x = from_kernel(solution, a);
  record("solve_triangular", x, {a, b},
         [upper, unitriangular, a = Saved(a), x = SavedOutput(x)](const Tensor& dx,
                                                                  const Needs& need) {
           const Tensor db = solve_lower_or_upper(transposed(a.get()), dx, !upper, unitriangular);
           Tensor da;
           if (need[0]) {
             const Tensor all = neg(matmul(db, transposed(x.get())));
             const int64_t first = unitriangular ? 1 : 0;  // diagonal that is read
             da = upper ? triu(all, first) : tril(all, -first);
           }
           return Tensors{da, db};
         });
  return x;
}

/// throws: ShapeError unless a x = b (or x a = b) has matching sizes.
void check_sizes(const char* op, const Tensor& a, const Tensor& b, bool left) {
  check_square(op, a);
  const int64_t size = b.ndim() < 2 ? -1 : b.dim(left ? -2 : -1);
  LATHE_CHECK(ShapeError, size == a.dim(-1), op, ": b must have as many ",
              left ? "rows" : "columns", " as a, ", a.dim(-1), " (a: ", a, ", b: ", b, ")");
}

}  // namespace

Tensor cholesky(const Tensor& a_in, const CholeskyOptions& opt) {
  const profile::OpRange range("cholesky", {a_in});
  const Tensor a = amp::cast(amp::kFloat, a_in);
  check_square("cholesky", a);
  const Tensor matrices = to_kernel(opt.upper ? transposed(a) : a);
  const Tensor factor = result_for(matrices, {a.dim(-1), a.dim(-1)});
  const cpu::Failures failures = cpu::batched_cholesky(factor, matrices);
  for (size_t i = 0; i < failures.size(); ++i) {
    LATHE_CHECK(ValueError, failures[i] == 0, "cholesky: ", name_of(a, static_cast<int64_t>(i)),
                " is not positive definite: its leading minor of order ", failures[i],
                " is not positive (a: ", a, ")");
  }
  Tensor l = from_kernel(factor, a);
  record("cholesky", l, {a}, [l = SavedOutput(l)](const Tensor& dl, const Needs&) {
    return Tensors{cholesky_gradient(dl, l.get())};
  });
  return opt.upper ? transposed(l) : l;
}

Tensor solve(const Tensor& a_in, const Tensor& b_in, const SolveOptions& opt) {
  const profile::OpRange range("solve", {a_in, b_in});
  const auto [a, b] = amp::cast(amp::kFloat, a_in, b_in);
  check_square("solve", a);
  Shape vectors = a.shape();
  vectors.erase(vectors.size() - 1);
  const bool is_vector = b.ndim() == 1 || (a.ndim() == b.ndim() + 1 && b.shape() == vectors);
  if (is_vector) {
    LATHE_CHECK(ValueError, opt.left, "solve: x a = b needs matrices, not vectors (a: ", a,
                ", b: ", b, ")");
    return squeeze(solve(a, unsqueeze(b, -1)), -1);
  }
  check_sizes("solve", a, b, opt.left);
  const auto [lhs, rhs] = same_batch("solve", a, b);
  if (opt.left) return solve_matrices("solve", "solve", lhs, rhs);
  return transposed(solve_matrices("solve", "solve", transposed(lhs), transposed(rhs)));
}

Tensor solve_triangular(const Tensor& a_in, const Tensor& b_in, const SolveTriangularOptions& opt) {
  const profile::OpRange range("solve_triangular", {a_in, b_in});
  const auto [a, b] = amp::cast(amp::kFloat, a_in, b_in);
  check_sizes("solve_triangular", a, b, opt.left);
  const auto [lhs, rhs] = same_batch("solve_triangular", a, b);
  if (opt.left) return solve_lower_or_upper(lhs, rhs, opt.upper, opt.unitriangular);
  return transposed(
      solve_lower_or_upper(transposed(lhs), transposed(rhs), !opt.upper, opt.unitriangular));
}

Tensor inverse_for(const char* caller, const Tensor& a_in) {
  const profile::OpRange range("inv", {a_in});
  const Tensor a = amp::cast(amp::kFloat, a_in);
  check_square(caller, a);
  return solve_matrices("inv", caller, a, expand(eye(a.dim(-1), a.options()), a.shape()));
}

Tensor inv(const Tensor& a) { return inverse_for("inv", a); }

}  // namespace lathe::linalg
