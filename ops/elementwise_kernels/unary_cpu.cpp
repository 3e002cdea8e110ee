// CPU kernels of ops/unary.h: one strided loop, one instance per op and dtype.
#include <type_traits>

#include "lathe/core/strided_loop.h"
#include "lathe/ops/elementwise_kernels/unary_math.h"

namespace lathe::cpu {

namespace {

template <class F, class... Fs>
constexpr bool kIsOneOf = (std::is_same_v<F, Fs> || ...);

/// Ops of a few dozen instructions without branches or calls, for which wider vectors pay.
template <class F>
constexpr bool kHasWideRow = kIsOneOf<F, math::Sigmoid, math::Silu, math::Exp, math::Tanh,
                                      math::Erf, math::Gelu, math::GeluTanh>;

template <class T, class F>
LATHE_CLONES void wide_row(T* out, const T* x, int64_t n, F f) {
  using C = ComputeType<T>;
  for (int64_t i = 0; i < n; ++i) out[i] = T(f(C(x[i])));
}

template <class Out, class T, class F>
void unary_row(const StridedRow& row, F f) {
  using C = ComputeType<T>;
  if (row.dense<Out>(0) && row.dense<T>(1)) {
    if constexpr (kHasWideRow<F> && std::is_same_v<T, float> && std::is_same_v<Out, float>) {
      return wide_row(row.at<T>(0), row.at<T>(1), row.size, f);
    }
    Out* out = row.at<Out>(0);
    const T* x = row.at<T>(1);
    for (int64_t i = 0; i < row.size; ++i) out[i] = Out(f(C(x[i])));
    return;
  }
  char *out = row.data[0], *x = row.data[1];
  for (int64_t i = 0; i < row.size; ++i, out += row.step[0], x += row.step[1]) {
    *reinterpret_cast<Out*>(out) = Out(f(C(*reinterpret_cast<T*>(x))));
  }
}

}  // namespace

void unary(UnaryOp op, const Tensor& out, const Tensor& x, UnaryParams p) {
  const auto run = [&]<class Out, class T>(TypeTag<Out>, TypeTag<T>, auto f) {
    strided_loop(out, x, [f](const StridedRow& row) { unary_row<Out, T>(row, f); });
  };
  math::visit_unary(op, x.dtype(), p, run);
}

}  // namespace lathe::cpu
