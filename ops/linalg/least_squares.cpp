// pinv, lstsq and matrix_rank, from singular values. Contracts: linalg.h.
#include <algorithm>
#include <limits>

#include "lathe/autograd/record.h"
#include "lathe/ops/autocast.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/linalg/linalg.h"
#include "lathe/ops/linalg/linalg_batch.h"
#include "lathe/ops/matmul.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/triangle.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"
#include "lathe/ops/where.h"

namespace lathe::linalg {

using autograd::Needs;
using autograd::record;
using autograd::Saved;
using autograd::SavedOutput;

namespace {

/// max(m, n) * epsilon of the dtype.
double default_rtol(const Tensor& a) {
  const double epsilon = a.dtype() == kF64 ? std::numeric_limits<double>::epsilon()
                                           : std::numeric_limits<float>::epsilon();
  return epsilon * static_cast<double>(std::max(a.dim(-2), a.dim(-1)));
}

/// An option's rtol, or the default where it is below 0.
double rtol_or_default(const Tensor& a, double atol, double rtol) {
  return rtol >= 0 ? rtol : atol > 0 ? 0 : default_rtol(a);
}

/// Which singular values s […,k], in any order, count.
Tensor counts(const Tensor& s, double atol, double rtol) {
  if (s.dim(-1) == 0) return gt(s, 0);
  const Tensor limit = mul(amax(s, {-1}, {.keepdim = true}), rtol);
  return gt(s, clamp(limit, atol, std::numeric_limits<double>::infinity()));
}

/// dA of p = pinv(a), of constant rank (Golub and Pereyra 1973, doi:10.1137/0710036).
Tensor pinv_gradient(const Tensor& dp, const Tensor& a, const Tensor& p) {
  const Tensor pt = transposed(p), dpt = transposed(dp);
  const Tensor direct = matmul(matmul(pt, dp), pt);
  const Tensor left = matmul(dpt, matmul(p, pt));   // [m,m]
  const Tensor right = matmul(matmul(pt, p), dpt);  // [m,n]
  const Tensor outside_columns = sub(left, matmul(a, matmul(p, left)));
  const Tensor outside_rows = sub(right, matmul(matmul(right, p), a));
  return sub(add(outside_columns, outside_rows), direct);
}

/// pinv(a) from the decomposition of a, which needs no history.
Tensor pinv_of(const Tensor& a, const Svd& parts, const Tensor& counted) {
  Tensor p;
  {
    const NoGrad off;
    const Tensor inverse = where(counted, reciprocal(parts.s), 0);
    p = matmul(mul(transposed(parts.vh), unsqueeze(inverse, -2)), transposed(parts.u));
  }
  record("pinv", p, {a}, [a = Saved(a), p = SavedOutput(p)](const Tensor& dp, const Needs&) {
    return Tensors{pinv_gradient(dp, a.get(), p.get())};
  });
  return p;
}

Svd thin_svd(const Tensor& a) {
  const NoGrad off;
  return svd(a.detach(), {.full_matrices = false});
}

}  // namespace

Tensor pinv(const Tensor& a_in, const PinvOptions& opt) {
  const profile::OpRange range("pinv", {a_in});
  const Tensor a = amp::cast(amp::kFloat, a_in);
  check_finite("pinv", a);
  const Autocast off(a.device(), kF16, false);  // of the products
  const Svd parts = thin_svd(a);
  return pinv_of(a, parts, counts(parts.s, opt.atol, rtol_or_default(a, opt.atol, opt.rtol)));
}

Tensor matrix_rank(const Tensor& a_in, const MatrixRankOptions& opt) {
  const profile::OpRange range("matrix_rank", {a_in});
  const NoGrad off;
  const Tensor a = amp::cast(amp::kFloat, a_in).detach();
  if (opt.hermitian) check_square("matrix_rank", a);
  check_matrices("matrix_rank", a);
  check_finite("matrix_rank", opt.hermitian ? tril(a) : a);
  const Tensor values = opt.hermitian ? abs(eigvalsh(a)) : svdvals(a);
  return sum(counts(values, opt.atol, rtol_or_default(a, opt.atol, opt.rtol)), {-1});
}

Lstsq lstsq(const Tensor& a_in, const Tensor& b_in, const LstsqOptions& opt) {
  const profile::OpRange range("lstsq", {a_in, b_in});
  const auto [a_cast, b_cast] = amp::cast(amp::kFloat, a_in, b_in);
  check_finite("lstsq", a_cast);
  const Autocast off(a_cast.device(), kF16, false);  // of the products
  LATHE_CHECK(ShapeError, b_cast.ndim() >= 2 && b_cast.dim(-2) == a_cast.dim(-2),
              "lstsq: b must have as many rows as a, ", a_cast.dim(-2), " (a: ", a_cast,
              ", b: ", b_cast, ")");
  const auto [a, b] = same_batch("lstsq", a_cast, b_cast);
  const Svd parts = thin_svd(a);
  const Tensor counted = counts(parts.s, 0, opt.rcond >= 0 ? opt.rcond : default_rtol(a));
  Lstsq y;
  y.singular_values = parts.s;
  y.rank = sum(counted, {-1});
  y.solution = matmul(pinv_of(a, parts, counted), b);
  const bool determined = a.dim(-2) > a.dim(-1) && all(eq(y.rank, a.dim(-1))).item<bool>();
  y.residuals =
      determined ? sum(square(sub(matmul(a, y.solution), b)), {-2}) : zeros({0}, a.options());
  return y;
}

}  // namespace lathe::linalg
