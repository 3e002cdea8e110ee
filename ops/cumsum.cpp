// Running sums: checks and gradient. Contract: cumsum.h; kernels: reduce_kernels/cumsum_cpu.cpp,
// cumsum_cuda.cu.
#include "lathe/ops/cumsum.h"

#include "lathe/autograd/record.h"
#include "lathe/core/dispatch.h"
#include "lathe/core/hooks/range.h"
#include "lathe/ops/autocast.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/lines.h"

namespace lathe {

using autograd::Needs;

/// The gradient of a running sum is the running sum of dy from the other end.
static Tensor running_sum(const Tensor& x, int dim, bool reverse) {
  const Lines lines = lines_of(x.shape(), dim);
  const DType dtype = is_floating(x.dtype()) ? x.dtype() : kI64;
  Tensor y = empty(x.shape(), {.dtype = dtype, .device = x.device()});
  LATHE_DISPATCH(x.device(), cumsum(y, contiguous(x.detach()), lines.n, lines.inner, reverse));
  autograd::record("cumsum", y, {x}, [dim, reverse](const Tensor& dy, const Needs&) {
    return Tensors{running_sum(dy, dim, !reverse)};
  });
  return y;
}

Tensor cumsum(const Tensor& x_in, int64_t dim) {
  const profile::OpRange range("cumsum", {x_in});
  profile::note_arguments(dim);
  const Tensor x = amp::cast(amp::kFloat, x_in);
  return running_sum(x, wrap_dim("cumsum", dim, x.ndim()), false);
}

}  // namespace lathe
