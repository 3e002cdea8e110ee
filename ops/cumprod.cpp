// cumprod: each pass multiplies by the product of twice as many predecessors. Contract: cumprod.h.
#include "lathe/ops/cumprod.h"

#include "lathe/core/hooks/range.h"
#include "lathe/core/visit.h"
#include "lathe/ops/autocast.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/join.h"
#include "lathe/ops/views.h"

namespace lathe {

Tensor cumprod(const Tensor& x_in, int64_t dim_in) {
  const profile::OpRange range("cumprod", {x_in});
  const Tensor x = amp::cast(amp::kFloat, x_in);
  const int dim = wrap_dim("cumprod", dim_in, x.ndim());
  const DType dtype = is_floating(x.dtype()) ? x.dtype() : kI64;
  const int64_t n = x.ndim() == 0 ? 1 : x.shape()[dim];
  if (n <= 1 || x.numel() == 0) return clone(cast(x, dtype));
  Tensor y = cast(x, compute_dtype(dtype));
  for (int64_t shift = 1; shift < n; shift *= 2) {  // y[i] covers the last `shift` elements up to i
    const Tensor before = narrow(y, dim, 0, n - shift), after = narrow(y, dim, shift, n - shift);
    y = cat({narrow(y, dim, 0, shift), mul(before, after)}, dim);
  }
  return cast(y, dtype);
}

}  // namespace lathe
