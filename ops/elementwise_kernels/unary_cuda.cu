// CUDA kernels of ops/unary.h, with the arithmetic of unary_math.h, which the CPU loop uses too.
// Contract: ops/unary.h.
#include "lathe/core/gpu/pointwise.cuh"
#include "lathe/ops/elementwise_kernels/unary_table.h"

namespace lathe::cuda {

void unary(UnaryOp op, const Tensor& out, const Tensor& x, UnaryParams p) {
  const auto run = [&]<class Out, class T, class F>(TypeTag<Out>, TypeTag<T>, F f) {
    pointwise<Out>(out, Rounded<Out, F>{f}, Input<T>{x});
  };
  math::visit_unary(op, x.dtype(), p, run);
}

}  // namespace lathe::cuda
