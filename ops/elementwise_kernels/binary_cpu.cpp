// CPU kernels of ops/binary.h: one strided loop, one instance per op and dtype.
#include <type_traits>

#include "lathe/core/strided_loop.h"
#include "lathe/ops/elementwise_kernels/binary_math.h"

namespace lathe::cpu {

namespace {

/// Ops for which wider vectors pay, as in unary_cpu.cpp.
template <class F>
constexpr bool kHasWideGrad =
    std::is_same_v<F, math::GeluGrad> || std::is_same_v<F, math::GeluTanhGrad>;

template <class F>
LATHE_CLONES void wide_row(float* out, const float* a, const float* b, int64_t n, F f) {
  for (int64_t i = 0; i < n; ++i) out[i] = f(a[i], b[i]);
}

/// out[i] = f(a[i], b[i]) over one row; dense rows and rows with one repeated operand vectorise.
template <class Out, class T, class F>
void binary_row(const StridedRow& row, F f) {
  using C = ComputeType<T>;
  const auto store = [&](Out& out, C a, C b) { out = Out(f(a, b)); };
  Out* out = row.at<Out>(0);
  const T* a = row.at<T>(1);
  const T* b = row.at<T>(2);
  const int64_t n = row.size;
  if (row.dense<Out>(0) && row.dense<T>(1) && row.dense<T>(2)) {
    if constexpr (kHasWideGrad<F> && std::is_same_v<T, float>) return wide_row(out, a, b, n, f);
    for (int64_t i = 0; i < n; ++i) store(out[i], C(a[i]), C(b[i]));
  } else if (row.dense<Out>(0) && row.dense<T>(1) && row.step[2] == 0) {
    const C same = C(*b);
    for (int64_t i = 0; i < n; ++i) store(out[i], C(a[i]), same);
  } else if (row.dense<Out>(0) && row.step[1] == 0 && row.dense<T>(2)) {
    const C same = C(*a);
    for (int64_t i = 0; i < n; ++i) store(out[i], same, C(b[i]));
  } else {
    char *po = row.data[0], *pa = row.data[1], *pb = row.data[2];
    for (int64_t i = 0; i < n; ++i) {
      store(*reinterpret_cast<Out*>(po), C(*reinterpret_cast<T*>(pa)),
            C(*reinterpret_cast<T*>(pb)));
      po += row.step[0], pa += row.step[1], pb += row.step[2];
    }
  }
}

}  // namespace

void binary(BinaryOp op, const Tensor& out, const Tensor& a, const Tensor& b) {
  const auto run = [&]<class Out, class T>(TypeTag<Out>, TypeTag<T>, auto f) {
    strided_loop(out, a, b, [f](const StridedRow& row) { binary_row<Out, T>(row, f); });
  };
  math::visit_binary(op, a.dtype(), run);
}

}  // namespace lathe::cpu
