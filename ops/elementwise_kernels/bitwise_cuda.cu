// CUDA kernels of ops/bitwise.h: core/gpu/pointwise.cuh with the arithmetic of bitwise_math.h.
// Contract: ops/bitwise.h.
#include "lathe/core/gpu/pointwise.cuh"
#include "lathe/ops/elementwise_kernels/bitwise_math.h"

namespace lathe::cuda {

void bitwise(BitOp op, const Tensor& out, const Tensor& a, const Tensor& b) {
  math::visit_bitwise(op, a.dtype(), [&]<class T, class F>(TypeTag<T>, F f) {
    pointwise<T>(out, f, Input<T>{a}, Input<T>{b});
  });
}

}  // namespace lathe::cuda
