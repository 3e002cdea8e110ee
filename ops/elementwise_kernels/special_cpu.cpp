// CPU kernels of ops/special.h, with the arithmetic of special_math.h. Contract: ops/special.h.
#include "lathe/core/row_kernel.h"
#include "lathe/ops/elementwise_kernels/special_math.h"

namespace lathe::cpu {

template <class T, class F>
static void special_row(const StridedRow& row, F f) {
  char *out = row.data[0], *x = row.data[1];
  for (int64_t i = 0; i < row.size; ++i, out += row.step[0], x += row.step[1]) {
    *reinterpret_cast<T*>(out) = T(f(ComputeType<T>(*reinterpret_cast<T*>(x))));
  }
}

void special(SpecialOp op, const Tensor& out, const Tensor& x, int64_t n) {
  math::visit_special(op, x.dtype(), n, [&]<class T, class F>(TypeTag<T>, F f) {
    strided_loop(out, x, RowKernel::of<special_row<T, F>>(dtype_of<T>, dtype_of<T>, f));
  });
}

}  // namespace lathe::cpu
