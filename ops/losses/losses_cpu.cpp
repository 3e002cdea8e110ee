// CPU kernels of mse_loss and smooth_l1_loss. Contracts: losses.h.
#include "lathe/core/strided_loop.h"
#include "lathe/core/visit.h"
#include "lathe/ops/losses/losses.h"

namespace lathe {

namespace {

/// As losses/losses.h says; NaN takes the branch of the square.
template <class C>
struct SmoothL1 {
  C beta, half_beta, bend;  // bend: 1 / (2 beta)
  C operator()(C x, C y) const {
    const C u = x - y, d = u < C(0) ? -u : u;
    const C line = d - half_beta, square = u * (u * bend);
    return d >= beta ? line : square;
  }
};

template <class C>
struct SquaredError {
  C operator()(C x, C y) const {
    const C u = x - y;
    return u * u;
  }
};

template <class C, class F>
LATHE_CLONES void dense_losses(C* __restrict__ out, const C* __restrict__ x,
                               const C* __restrict__ y, int64_t n, F f) {
  for (int64_t i = 0; i < n; ++i) out[i] = f(x[i], y[i]);
}

/// losses = f(x, y), computed in C.
template <class T, class F, class C = ComputeType<T>>
void losses_by(const Tensor& losses, const Tensor& x, const Tensor& y, F f) {
  strided_loop(losses, x, y, [f](const StridedRow& row) {
    if constexpr (std::is_same_v<T, C>) {
      if (row.dense<T>(0) && row.dense<T>(1) && row.dense<T>(2)) {
        return dense_losses(row.at<T>(0), row.at<T>(1), row.at<T>(2), row.size, f);
      }
    }
    char *out = row.data[0], *a = row.data[1], *b = row.data[2];
    for (int64_t i = 0; i < row.size; ++i) {
      *reinterpret_cast<T*>(out) = T(f(C(*reinterpret_cast<T*>(a)), C(*reinterpret_cast<T*>(b))));
      out += row.step[0], a += row.step[1], b += row.step[2];
    }
  });
}

}  // namespace

void cpu::squared_error(const Tensor& losses, const Tensor& x, const Tensor& y) {
  visit_float(x.dtype(), "mse_loss", [&](auto tag) {
    using T = typename decltype(tag)::type;
    losses_by<T>(losses, x, y, SquaredError<ComputeType<T>>());
  });
}

void cpu::smooth_l1(const Tensor& losses, const Tensor& x, const Tensor& y, double beta) {
  visit_float(x.dtype(), "smooth_l1_loss", [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    losses_by<T>(losses, x, y, SmoothL1<C>{C(beta), C(0.5 * beta), C(0.5 / beta)});
  });
}

}  // namespace lathe
