// CUDA kernels of ops/special.h, with the arithmetic of special_math.h, which the CPU's loop uses,
// too. Contract: ops/special.h.
#include "lathe/core/gpu/pointwise.cuh"
#include "lathe/ops/elementwise_kernels/special_math.h"

namespace lathe::cuda {

namespace {

/// out = f(x), one element at a time: packets of this arithmetic would not fit the registers.
template <class T, class F>
void each_element(const Tensor& out, const F& f, const Tensor& x) {
  const PointwiseOperand operands[] = {{out, dtype_of<T>}, {x, dtype_of<T>}};
  each_pointwise_part(operands, 1, [&](const PointwisePart& part) {
    const auto [grid, block] = launch_1d(part.count);
    T* const to = static_cast<T*>(part.data[0]);
    const StridedIndex<2> index(part.nest);
    const Elements<T> from = elements<T>(part, 0, x);
    if (part.packed) {
      launch_dependent(pointwise_packet_kernel<1, T, F, T>, grid, block, 0, part.stream, to, f,
                       index, part.count, part.left, part.repeated, from);
    } else {
      launch_dependent(pointwise_element_kernel<T, F, T>, grid, block, 0, part.stream, to, f, index,
                       part.count, from);
    }
  });
}

}  // namespace

void special(SpecialOp op, const Tensor& out, const Tensor& x, int64_t n) {
  math::visit_special(op, x.dtype(), n, [&]<class T, class F>(TypeTag<T>, F f) {
    each_element<T>(out, Rounded<T, F>{f}, x);
  });
}

}  // namespace lathe::cuda
