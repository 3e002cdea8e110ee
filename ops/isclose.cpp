// isclose, allclose and equal. Contracts: isclose.h.
#include "lathe/ops/isclose.h"

#include "lathe/autograd/grad_mode.h"
#include "lathe/core/hooks/range.h"
#include "lathe/core/visit.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/promote.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"

namespace lathe {

static void check_alike(const char* op, const Tensor& a, const Tensor& b) {
  LATHE_CHECK(DTypeError, a.dtype() == b.dtype(), op, ": a and b must have one dtype (a: ", a,
              ", b: ", b, ")");
  check_devices(op, a, b);
}

Tensor isclose(const Tensor& a_in, const Tensor& b_in, const CloseOptions& opt) {
  const profile::OpRange range("isclose", {a_in, b_in});
  check_alike("isclose", a_in, b_in);
  LATHE_CHECK(ValueError, opt.rtol >= 0 && opt.atol >= 0,
              "isclose: rtol and atol must not be negative, got ", opt.rtol, " and ", opt.atol);
  const NoGrad off;
  const Tensor same = eq(a_in, b_in);
  const DType wide = is_floating(a_in.dtype()) ? compute_dtype(a_in.dtype()) : kF64;
  const Tensor a = cast(a_in, wide), b = cast(b_in, wide), error = abs(sub(a, b));
  const Tensor allowed = add(mul(abs(b), opt.rtol), opt.atol);
  // An infinite error is within the infinite tolerance of an infinite b.
  Tensor close = logical_or(same, logical_and(isfinite(error), le(error, allowed)));
  if (opt.equal_nan) close = logical_or(close, logical_and(isnan(a), isnan(b)));
  return close;
}

bool allclose(const Tensor& a, const Tensor& b, const CloseOptions& options) {
  const profile::OpRange range("allclose", {a, b});
  return all(isclose(a, b, options)).item<bool>();
}

bool equal(const Tensor& a, const Tensor& b) {
  const profile::OpRange range("equal", {a, b});
  check_alike("equal", a, b);
  return a.shape() == b.shape() && all(eq(a.detach(), b.detach())).item<bool>();
}

}  // namespace lathe
