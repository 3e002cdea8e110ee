// CPU kernels of ops/bitwise.h, with the arithmetic of bitwise_math.h. Contract: ops/bitwise.h.
#include "lathe/core/strided_loop.h"
#include "lathe/ops/elementwise_kernels/bitwise_math.h"

namespace lathe::cpu {

/// Dense rows, and rows with one b for all, become vector code.
template <class T, class F>
static void bitwise_row(const StridedRow& row, F f) {
  const int64_t n = row.size;
  T *out = row.at<T>(0), *a = row.at<T>(1), *b = row.at<T>(2);
  if (row.dense<T>(0) && row.dense<T>(1) && row.dense<T>(2)) {
    for (int64_t i = 0; i < n; ++i) out[i] = f(a[i], b[i]);
  } else if (row.dense<T>(0) && row.dense<T>(1) && row.step[2] == 0) {
    const T same = *b;
    for (int64_t i = 0; i < n; ++i) out[i] = f(a[i], same);
  } else {
    const auto at = [&](int k, int64_t i) {
      return reinterpret_cast<T*>(row.data[k] + i * row.step[k]);
    };
    for (int64_t i = 0; i < n; ++i) *at(0, i) = f(*at(1, i), *at(2, i));
  }
}

void bitwise(BitOp op, const Tensor& out, const Tensor& a, const Tensor& b) {
  math::visit_bitwise(op, a.dtype(), [&]<class T, class F>(TypeTag<T>, F f) {
    strided_loop(out, a, b, [f](const StridedRow& row) { bitwise_row<T>(row, f); });
  });
}

}  // namespace lathe::cpu
