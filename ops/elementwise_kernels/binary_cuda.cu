// CUDA kernels of ops/binary.h: core/gpu/pointwise.cuh with the arithmetic of binary_math.h, which
// the CPU loop uses too. Contract: ops/binary.h.
#include "lathe/core/gpu/pointwise.cuh"
#include "lathe/ops/elementwise_kernels/binary_table.h"

namespace lathe::cuda {

void binary(BinaryOp op, const Tensor& out, const Tensor& a, const Tensor& b) {
  const auto run = [&]<class Out, class T, class F>(TypeTag<Out>, TypeTag<T>, F f) {
    pointwise<Out>(out, Rounded<Out, F>{f}, Input<T>{a}, Input<T>{b});
  };
  math::visit_binary(op, a.dtype(), run);
}

}  // namespace lathe::cuda
