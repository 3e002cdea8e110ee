// cumprod. On the CPU a kernel; else passes, each of which multiplies by the product of twice as
// many predecessors. The gradient goes back through those passes, so that it is right at zeros.
// Contract: cumprod.h.
#include "lathe/ops/cumprod.h"

#include "lathe/autograd/record.h"
#include "lathe/core/hooks/range.h"
#include "lathe/core/hooks/watch.h"
#include "lathe/core/visit.h"
#include "lathe/ops/autocast.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/join.h"
#include "lathe/ops/lines.h"
#include "lathe/ops/pad.h"
#include "lathe/ops/views.h"

namespace lathe {

namespace {

/// One pass: y covers the last `shift` elements up to each place, the result the last 2 * shift.
Tensor product_pass(const Tensor& y, int dim, int64_t shift) {
  const int64_t rest = y.shape()[dim] - shift;
  return cat({narrow(y, dim, 0, shift), mul(narrow(y, dim, 0, rest), narrow(y, dim, shift, rest))},
             dim);
}

/// The gradient of product_pass() at y.
Tensor product_pass_grad(const Tensor& dz, const Tensor& y, int dim, int64_t shift) {
  const int64_t rest = y.shape()[dim] - shift;
  const Tensor tail = narrow(dz, dim, shift, rest);
  const Tensor by_before = mul(tail, narrow(y, dim, 0, rest));
  const Tensor by_after = mul(tail, narrow(y, dim, shift, rest));
  std::vector<int64_t> behind(2 * static_cast<size_t>(y.ndim() - dim), 0);
  behind.back() = shift;
  return add(cat({narrow(dz, dim, 0, shift), by_before}, dim), pad(by_after, behind));
}

/// The gradient of the running products of x, whose dtype is dy's.
Tensor cumprod_grad(const Tensor& dy, const Tensor& x, int dim) {
  const DType wide = compute_dtype(x.dtype());
  Tensors inputs{cast(x, wide)};
  int64_t shift = 1;
  for (; 2 * shift < x.shape()[dim]; shift *= 2)
    inputs.push_back(product_pass(inputs.back(), dim, shift));
  Tensor dx = cast(dy, wide);
  for (; shift > 0; shift /= 2) {
    dx = product_pass_grad(dx, inputs.back(), dim, shift);
    inputs.pop_back();
  }
  return cast(dx, x.dtype());
}

}  // namespace

Tensor cumprod(const Tensor& x_in, int64_t dim_in) {
  const profile::OpRange range("cumprod", {x_in});
  const Tensor x = amp::cast(amp::kFloat, x_in);
  const int dim = wrap_dim("cumprod", dim_in, x.ndim());
  const DType dtype = is_floating(x.dtype()) ? x.dtype() : kI64;
  const int64_t n = x.ndim() == 0 ? 1 : x.shape()[dim];
  if (n <= 1 || x.numel() == 0) return clone(cast(x, dtype));
  if (x.device().is_cpu() && !profile::watched()) {
    const Tensor y = empty(x.shape(), {.dtype = dtype});
    cpu::cumprod(y, contiguous(x.detach()), n, lines_of(x.shape(), dim).inner);
    autograd::record("cumprod", y, {x},
                     [x = autograd::Saved(x), dim](const Tensor& dy, const autograd::Needs&) {
                       return Tensors{cumprod_grad(dy, x.get(), dim)};
                     });
    return y;
  }
  Tensor y = cast(x, compute_dtype(dtype));
  for (int64_t shift = 1; shift < n; shift *= 2) y = product_pass(y, dim, shift);
  return cast(y, dtype);
}

}  // namespace lathe
