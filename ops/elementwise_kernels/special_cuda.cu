// CUDA kernels of ops/special.h, with the arithmetic of special_math.h, which the CPU's loop uses,
// too. Contract: ops/special.h.
#include "lathe/core/gpu/pointwise.cuh"
#include "lathe/ops/elementwise_kernels/special_math.h"

namespace lathe::cuda {

void special(SpecialOp op, const Tensor& out, const Tensor& x, int64_t n) {
  math::visit_special(op, x.dtype(), n, [&]<class T, class F>(TypeTag<T>, F f) {
    pointwise<T>(out, Rounded<T, F>{f}, Input<T>{x});
  });
}

}  // namespace lathe::cuda
