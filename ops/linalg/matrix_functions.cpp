// matrix_exp and matrix_norm. Contracts: linalg.h.
#include <cmath>

#include "lathe/autograd/record.h"
#include "lathe/ops/autocast.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/join.h"
#include "lathe/ops/linalg/linalg.h"
#include "lathe/ops/linalg/linalg_batch.h"
#include "lathe/ops/linalg/linalg_eigen.h"
#include "lathe/ops/rearrange.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"

namespace lathe::linalg {

using autograd::Needs;
using autograd::record;
using autograd::Saved;

namespace {

/// The corner of exp [[a^T, dy], [0, a^T]] (Al-Mohy and Higham 2009, doi:10.1137/080716426).
Tensor matrix_exp_gradient(const Tensor& dy, const Tensor& a) {
  const int64_t n = a.dim(-1);
  const Tensor at = transposed(a);
  const Tensor block = cat({cat({at, dy}, -1), cat({zeros_like(at), at}, -1)}, -2);
  return narrow(narrow(matrix_exp(block), -2, 0, n), -1, n, n);
}

/// The singular values of […,m,n]. Errors begin with "matrix_norm".
Tensor singular_values(const Tensor& a) {
  check_finite("matrix_norm", a);
  return svd(a, {.full_matrices = false}).s;
}

/// The norm of […,m,n] over its last two dimensions, which stay with size 1.
Tensor norm_of_matrices(const Tensor& a, double ord) {
  const bool largest = ord > 0;
  const auto extreme = [&](const Tensor& x, int64_t dim) {
    LATHE_CHECK(ShapeError, x.dim(dim) > 0 || largest,
                "matrix_norm: the least of no numbers (a: ", a, ")");
    if (x.dim(dim) == 0) return sum(x, {dim}, {.keepdim = true});
    return largest ? amax(x, {dim}, {.keepdim = true}) : amin(x, {dim}, {.keepdim = true});
  };
  if (std::fabs(ord) == 1) return extreme(sum(abs(a), {-2}, {.keepdim = true}), -1);
  if (std::isinf(ord)) return extreme(sum(abs(a), {-1}, {.keepdim = true}), -2);
  LATHE_CHECK(ValueError, std::fabs(ord) == 2,
              "matrix_norm: expected ord \"fro\", \"nuc\", 1, -1, 2, -2, inf or -inf, got ", ord);
  return unsqueeze(extreme(singular_values(a), -1), -1);
}

/// The matrices that `dim` names, last.
Tensor with_matrices_last(const Tensor& a, const MatrixNormOptions& opt) {
  LATHE_CHECK(DTypeError, a.dtype() == kF32 || a.dtype() == kF64,
              "matrix_norm: expected f32 or f64 (a: ", a, ")");
  LATHE_CHECK(ShapeError, opt.dim.size() == 2, "matrix_norm: dim must name two dimensions, got ",
              opt.dim);
  const int rows = wrap_dim("matrix_norm", opt.dim[0], a.ndim());
  const int columns = wrap_dim("matrix_norm", opt.dim[1], a.ndim());
  LATHE_CHECK(ShapeError, rows != columns, "matrix_norm: dim names dimension ", rows, " twice");
  return movedim(a, {rows, columns}, {-2, -1});
}

/// y […,1,1] as matrix_norm() returns it.
Tensor as_asked(const Tensor& y, const MatrixNormOptions& opt) {
  if (opt.keepdim) return movedim(y, {-2, -1}, opt.dim);
  return squeeze(squeeze(y, -1), -1);
}

}  // namespace

Tensor matrix_exp(const Tensor& a_in) {
  const profile::OpRange range("matrix_exp", {a_in});
  const Tensor a = amp::cast(amp::kFloat, a_in);
  check_square("matrix_exp", a);
  const Tensor matrices = to_kernel(a);
  const Tensor result = result_for(matrices, {a.dim(-1), a.dim(-1)});
  cpu::batched_matrix_exp(result, matrices);
  Tensor y = from_kernel(result, a);
  record("matrix_exp", y, {a}, [a = Saved(a)](const Tensor& dy, const Needs&) {
    return Tensors{matrix_exp_gradient(dy, a.get())};
  });
  return y;
}

Tensor matrix_norm(const Tensor& a_in, std::string_view ord, const MatrixNormOptions& opt) {
  const profile::OpRange range("matrix_norm", {a_in});
  LATHE_CHECK(ValueError, ord == "fro" || ord == "nuc",
              "matrix_norm: expected ord \"fro\", \"nuc\", 1, -1, 2, -2, inf or -inf, got \"", ord,
              "\"");
  const Tensor a = with_matrices_last(amp::cast(amp::kFloat, a_in), opt);
  if (ord == "fro") return as_asked(vector_norm(a, 2, {-2, -1}, {.keepdim = true}), opt);
  const Tensor total = sum(singular_values(a), {-1}, {.keepdim = true});
  return as_asked(unsqueeze(total, -1), opt);
}

Tensor matrix_norm(const Tensor& a_in, double ord, const MatrixNormOptions& opt) {
  const profile::OpRange range("matrix_norm", {a_in});
  const Tensor a = with_matrices_last(amp::cast(amp::kFloat, a_in), opt);
  return as_asked(norm_of_matrices(a, ord), opt);
}

}  // namespace lathe::linalg
