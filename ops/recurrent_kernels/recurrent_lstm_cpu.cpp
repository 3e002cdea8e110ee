// The steps of lstm on the CPU. Contracts: recurrent.h.
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

/// gates [4H]: w_h h; then i, f, g and o, of its sum with x and bias. c and h are the states after
/// the step.
template <class A>
LATHE_CLONES void lstm_row(A* __restrict__ gates, A* __restrict__ c, A* __restrict__ h,
                           const A* __restrict__ x, const A* __restrict__ bias,
                           const A* __restrict__ c_before, int64_t H) {
  const A *x_f = x + H, *x_g = x_f + H, *x_o = x_g + H;
  const A *b_f = bias + H, *b_g = b_f + H, *b_o = b_g + H;
  A *const f_out = gates + H, *const g_out = f_out + H, *const o_out = g_out + H;
  for (int64_t j = 0; j < H; ++j) {
    const A i = Sigmoid{}(gates[j] + x[j] + bias[j]), f = Sigmoid{}(f_out[j] + x_f[j] + b_f[j]);
    const A g = Tanh{}(g_out[j] + x_g[j] + b_g[j]), o = Sigmoid{}(o_out[j] + x_o[j] + b_o[j]);
    const A cell = f * c_before[j] + i * g;
    gates[j] = i;
    f_out[j] = f;
    g_out[j] = g;
    o_out[j] = o;
    c[j] = cell;
    h[j] = o * Tanh{}(cell);
  }
}

/// dh, of h after the step, comes in two parts. dc, of c after the step, becomes that of c before.
template <class A>
LATHE_CLONES void lstm_gradient_row(A* __restrict__ d_gates, A* __restrict__ dc,
                                    const A* __restrict__ dh, const A* __restrict__ dy,
                                    const A* __restrict__ gates, const A* __restrict__ c,
                                    const A* __restrict__ c_before, int64_t H) {
  for (int64_t j = 0; j < H; ++j) {
    const A i = gates[j], f = gates[H + j], g = gates[2 * H + j], o = gates[3 * H + j];
    const A tanh_c = Tanh{}(c[j]), d = dh[j] + dy[j];
    const A d_cell = dc[j] + d * o * (A(1) - tanh_c * tanh_c);
    d_gates[j] = d_cell * g * i * (A(1) - i);
    d_gates[H + j] = d_cell * c_before[j] * f * (A(1) - f);
    d_gates[2 * H + j] = d_cell * i * (A(1) - g * g);
    d_gates[3 * H + j] = d * tanh_c * o * (A(1) - o);
    dc[j] = d_cell * f;
  }
}

}  // namespace

cpu::RecurrentSteps cpu::lstm_steps(const Tensor& from_x, const Tensor& h, const Tensor& c,
                                    const Tensor& w_h, const Tensor& b_h, bool keep) {
  const int64_t T = from_x.dim(0), N = from_x.dim(1), H = h.dim(1), G = 4 * H;
  const TensorOptions like{.dtype = from_x.dtype()};
  const RecurrentSteps s{empty({T + 1, N, H}, like), empty({keep ? T : 1, N, G}, like),
                         empty({T + 1, N, H}, like)};
  copy_values(select(s.states, 0, 0), h);
  copy_values(select(s.cells, 0, 0), c);
  const Tensor w = step_weights(w_h, T);
  const Tensor bias = b_h.defined() ? b_h : zeros({G}, like);
  visit_wide_dtype(from_x.dtype(), [&](auto tag) {
    using A = typename decltype(tag)::type;
    const auto weights = matrix_of<const A>(w);
    share_out_sequences(N, [&](int64_t first, int64_t rows) {
      for (int64_t t = 0; t < T; ++t) {
        A* const gates = s.gates.data<A>() + ((keep ? t * N : 0) + first) * G;
        const A* const x = from_x.data<A>() + (t * N + first) * G;
        A* const before = s.states.data<A>() + (t * N + first) * H;
        A* const cells = s.cells.data<A>() + (t * N + first) * H;
        gemm(MatrixRef<A>::row_major(gates, rows, G),
             MatrixRef<const A>::row_major(before, rows, H), weights, GemmMode::kWrite);
        for (int64_t r = 0; r < rows; ++r) {
          lstm_row(gates + r * G, cells + (N + r) * H, before + (N + r) * H, x + r * G,
                   bias.data<A>(), cells + r * H, H);
        }
      }
    });
  });
  return s;
}

cpu::RecurrentGradients cpu::lstm_step_gradients(const RecurrentSteps& s, const Tensor& w_h,
                                                 const Tensor& dy, const Tensor& dc) {
  const int64_t T = dy.dim(0), N = dy.dim(1), H = dy.dim(2), G = 4 * H;
  const TensorOptions like{.dtype = dy.dtype()};
  const Tensor d_gates = empty({T, N, G}, like), dh = zeros({N, H}, like), dc_now = dc.clone();
  visit_wide_dtype(dy.dtype(), [&](auto tag) {
    using A = typename decltype(tag)::type;
    const auto weights = MatrixRef<const A>::row_major(w_h.data<A>(), G, H);
    share_out_sequences(N, [&](int64_t first, int64_t rows) {
      for (int64_t t = T; t-- > 0;) {
        const int64_t row = t * N + first;
        A* const out = d_gates.data<A>() + row * G;
        for (int64_t r = 0; r < rows; ++r) {
          lstm_gradient_row(
              out + r * G, dc_now.data<A>() + (first + r) * H, dh.data<A>() + (first + r) * H,
              dy.data<A>() + (row + r) * H, s.gates.data<A>() + (row + r) * G,
              s.cells.data<A>() + (row + N + r) * H, s.cells.data<A>() + (row + r) * H, H);
        }
        gemm(MatrixRef<A>::row_major(dh.data<A>() + first * H, rows, H),
             MatrixRef<const A>::row_major(out, rows, G), weights, GemmMode::kWrite);
      }
    });
  });
  return {d_gates, d_gates, dh, dc_now};
}

}  // namespace lathe
