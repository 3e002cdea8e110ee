// The steps of gru on the CPU. Contracts: recurrent.h.
#include <algorithm>
#include <vector>

#include "lathe/core/copy.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/elementwise_kernels/unary_math.h"
#include "lathe/ops/recurrent.h"
#include "lathe/ops/recurrent_kernels/sequences.h"
#include "lathe/ops/views.h"

namespace lathe {

namespace {

using cpu::GemmMode;
using cpu::MatrixRef;
using math::Sigmoid;
using math::Tanh;

/// x, s [3H]: the parts of x and of the state.   → gates [4H]: r, z, n, and the state's part of n
template <class A>
LATHE_CLONES void gru_row(A* __restrict__ gates, A* __restrict__ h, const A* __restrict__ x,
                          const A* __restrict__ s, const A* __restrict__ h_before, int64_t H) {
  for (int64_t j = 0; j < H; ++j) {
    const A r = Sigmoid{}(x[j] + s[j]), z = Sigmoid{}(x[H + j] + s[H + j]);
    const A of_state = s[2 * H + j], n = Tanh{}(x[2 * H + j] + r * of_state);
    gates[j] = r;
    gates[H + j] = z;
    gates[2 * H + j] = n;
    gates[3 * H + j] = of_state;
    h[j] = (h_before[j] - n) * z + n;
  }
}

/// dh, of h after the step, comes in two parts. It becomes the part of h before the step that does
/// not pass through the weights.
template <class A>
LATHE_CLONES void gru_gradient_row(A* __restrict__ dx, A* __restrict__ ds, A* __restrict__ dh,
                                   const A* __restrict__ dy, const A* __restrict__ gates,
                                   const A* __restrict__ h_before, int64_t H) {
  for (int64_t j = 0; j < H; ++j) {
    const A r = gates[j], z = gates[H + j], n = gates[2 * H + j], of_state = gates[3 * H + j];
    const A d = dh[j] + dy[j];
    const A dn = d * (A(1) - z) * (A(1) - n * n);
    const A dr = dn * of_state * r * (A(1) - r), dz = d * (h_before[j] - n) * z * (A(1) - z);
    dx[j] = ds[j] = dr;
    dx[H + j] = ds[H + j] = dz;
    dx[2 * H + j] = dn;
    ds[2 * H + j] = dn * r;
    dh[j] = d * z;
  }
}

}  // namespace

cpu::RecurrentSteps cpu::gru_steps(const Tensor& from_x, const Tensor& h, const Tensor& w_h,
                                   const Tensor& b_h, bool keep) {
  const int64_t T = from_x.dim(0), N = from_x.dim(1), H = h.dim(1), G = 3 * H;
  const TensorOptions like{.dtype = from_x.dtype()};
  const RecurrentSteps s{empty({T + 1, N, H}, like), empty({keep ? T : 1, N, 4 * H}, like), {}};
  copy_values(select(s.states, 0, 0), h);
  const Tensor w = step_weights(w_h, T);
  visit_wide_dtype(from_x.dtype(), [&](auto tag) {
    using A = typename decltype(tag)::type;
    const auto weights = matrix_of<const A>(w);
    share_out_sequences(N, [&](int64_t first, int64_t rows) {
      std::vector<A> of_state(static_cast<size_t>(rows * G));
      for (int64_t t = 0; t < T; ++t) {
        A* const gates = s.gates.data<A>() + ((keep ? t * N : 0) + first) * 4 * H;
        const A* const x = from_x.data<A>() + (t * N + first) * G;
        A* const before = s.states.data<A>() + (t * N + first) * H;
        for (int64_t r = 0; b_h.defined() && r < rows; ++r) {
          std::copy_n(b_h.data<A>(), G, of_state.data() + r * G);
        }
        gemm(MatrixRef<A>::row_major(of_state.data(), rows, G),
             MatrixRef<const A>::row_major(before, rows, H), weights,
             b_h.defined() ? GemmMode::kAdd : GemmMode::kWrite);
        for (int64_t r = 0; r < rows; ++r) {
          gru_row(gates + r * 4 * H, before + (N + r) * H, x + r * G, of_state.data() + r * G,
                  before + r * H, H);
        }
      }
    });
  });
  return s;
}

cpu::RecurrentGradients cpu::gru_step_gradients(const RecurrentSteps& s, const Tensor& w_h,
                                                const Tensor& dy) {
  const int64_t T = dy.dim(0), N = dy.dim(1), H = dy.dim(2), G = 3 * H;
  const TensorOptions like{.dtype = dy.dtype()};
  const Tensor dx = empty({T, N, G}, like), ds = empty({T, N, G}, like), dh = zeros({N, H}, like);
  visit_wide_dtype(dy.dtype(), [&](auto tag) {
    using A = typename decltype(tag)::type;
    const auto weights = MatrixRef<const A>::row_major(w_h.data<A>(), G, H);
    share_out_sequences(N, [&](int64_t first, int64_t rows) {
      A* const d = dh.data<A>() + first * H;
      for (int64_t t = T; t-- > 0;) {
        const int64_t row = t * N + first;
        for (int64_t r = 0; r < rows; ++r) {
          gru_gradient_row(dx.data<A>() + (row + r) * G, ds.data<A>() + (row + r) * G, d + r * H,
                           dy.data<A>() + (row + r) * H, s.gates.data<A>() + (row + r) * 4 * H,
                           s.states.data<A>() + (row + r) * H, H);
        }
        gemm(MatrixRef<A>::row_major(d, rows, H),
             MatrixRef<const A>::row_major(ds.data<A>() + row * G, rows, G), weights,
             GemmMode::kAdd);
      }
    });
  });
  return {dx, ds, dh, {}};
}

}  // namespace lathe
