// The steps of lstm on the CPU. Contracts: recurrent.h.
#include "lathe/core/copy.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/recurrent.h"
#include "lathe/ops/recurrent_kernels/lstm_units.h"
#include "lathe/ops/recurrent_kernels/recurrent_lstm_bf16.h"
#include "lathe/ops/recurrent_kernels/sequences.h"
#include "lathe/ops/views.h"

namespace lathe {

using cpu::GemmMode;
using cpu::MatrixRef;

DType cpu::lstm_dtype(DType dtype) noexcept {
  return dtype == kBF16 && has_tile_registers() ? kBF16 : compute_dtype(dtype);
}

cpu::RecurrentSteps cpu::lstm_steps(const Tensor& from_x, const Tensor& h, const Tensor& c,
                                    const Tensor& w_h, const Tensor& b_h, bool keep) {
  const int64_t T = from_x.dim(0), N = from_x.dim(1), H = h.dim(1), G = 4 * H;
  const DType dtype = from_x.dtype(), wide = compute_dtype(dtype);
  const RecurrentSteps s{empty({T + 1, N, H}, {.dtype = dtype}),
                         empty({keep ? T : 1, N, G}, {.dtype = wide}),
                         empty({T + 1, N, H}, {.dtype = wide})};
  copy_values(select(s.states, 0, 0), h);
  copy_values(select(s.cells, 0, 0), c);
  const Tensor bias = b_h.defined() ? b_h.to(wide) : zeros({G}, {.dtype = wide});
  if (dtype == kBF16) {
    lstm_steps_bf16(amx_kernels(), s, from_x, w_h, bias);
    return s;
  }
  const Tensor w = step_weights(w_h, T);
  visit_wide_dtype(dtype, [&](auto tag) {
    using A = typename decltype(tag)::type;
    const auto weights = matrix_of<const A>(w);
    share_out_sequences(N, [&](int64_t first, int64_t rows) {
      for (int64_t t = 0; t < T; ++t) {
        A* const gates = s.gates.data<A>() + ((keep ? t * N : 0) + first) * G;
        A* const before = s.states.data<A>() + (t * N + first) * H;
        A* const cells = s.cells.data<A>() + (t * N + first) * H;
        gemm(MatrixRef<A>::row_major(gates, rows, G),
             MatrixRef<const A>::row_major(before, rows, H), weights, GemmMode::kWrite);
        lstm_forward(LstmForward<A, A>{.size = {rows, H, H},
                                       .sums = gates,
                                       .sum_row = G,
                                       .sum_gate = H,
                                       .x = from_x.data<A>() + (t * N + first) * G,
                                       .bias = bias.data<A>(),
                                       .c_before = cells,
                                       .c = cells + N * H,
                                       .gates = gates,
                                       .h = before + N * H,
                                       .h_row = H});
      }
    });
  });
  return s;
}

cpu::RecurrentGradients cpu::lstm_step_gradients(const RecurrentSteps& s, const Tensor& w_h,
                                                 const Tensor& dy, const Tensor& dc) {
  const int64_t T = dy.dim(0), N = dy.dim(1), H = dy.dim(2), G = 4 * H;
  const DType dtype = dy.dtype(), wide = compute_dtype(dtype);
  const Tensor d_gates = empty({T, N, G}, {.dtype = dtype}), dh = zeros({N, H}, {.dtype = wide});
  const Tensor dc_now = empty({N, H}, {.dtype = wide});
  copy_values(dc_now, dc);
  const RecurrentGradients grads{d_gates, d_gates, dh, dc_now};
  if (dtype == kBF16) {
    lstm_step_gradients_bf16(amx_kernels(), grads, s, w_h, dy);
    return grads;
  }
  visit_wide_dtype(dtype, [&](auto tag) {
    using A = typename decltype(tag)::type;
    const auto weights = MatrixRef<const A>::row_major(w_h.data<A>(), G, H);
    share_out_sequences(N, [&](int64_t first, int64_t rows) {
      for (int64_t t = T; t-- > 0;) {
        const int64_t row = t * N + first;
        A *const out = d_gates.data<A>() + row * G, *const d = dh.data<A>() + first * H;
        lstm_backward(LstmBackward<A, A>{.size = {rows, H, H},
                                         .dh = d,
                                         .dh_row = H,
                                         .dy = dy.data<A>() + row * H,
                                         .dc = dc_now.data<A>() + first * H,
                                         .gates = s.gates.data<A>() + row * G,
                                         .c = s.cells.data<A>() + (row + N) * H,
                                         .c_before = s.cells.data<A>() + row * H,
                                         .d_gates = out,
                                         .d_row = G});
        gemm(MatrixRef<A>::row_major(d, rows, H), MatrixRef<const A>::row_major(out, rows, G),
             weights, GemmMode::kWrite);
      }
    });
  });
  return grads;
}

}  // namespace lathe
