// Units of lstm in plain loops, and the choice of the loops. Contract: lstm_units.h.
#include "lathe/ops/recurrent_kernels/lstm_units.h"

#include "lathe/core/config.h"
#include "lathe/core/half.h"
#include "lathe/core/x86_levels.h"
#include "lathe/ops/elementwise_kernels/unary_math.h"

namespace lathe::cpu {

namespace {

using math::Sigmoid;
using math::Tanh;

template <class T>
[[gnu::always_inline]] inline T wide_value(T x) {
  return x;
}
[[gnu::always_inline]] inline float wide_value(uint16_t bits) {
  return half_detail::float_from_bfloat16(bits);
}
template <class X, class A>
[[gnu::always_inline]] inline X narrow_value(A x) {
  if constexpr (sizeof(X) == sizeof(A)) return x;
  return half_detail::bfloat16_from_float(static_cast<float>(x));
}

template <class X, class A>
LATHE_CLONES void forward_row(A* __restrict__ gates, A* __restrict__ c, X* __restrict__ h,
                              const A* sums, int64_t sum_gate, const X* __restrict__ x,
                              const A* __restrict__ bias, const A* __restrict__ c_before, int64_t H,
                              int64_t n) {
  const A *s_f = sums + sum_gate, *s_g = s_f + sum_gate, *s_o = s_g + sum_gate;
  for (int64_t j = 0; j < n; ++j) {
    const A i = Sigmoid{}(sums[j] + wide_value(x[j]) + bias[j]);
    const A f = Sigmoid{}(s_f[j] + wide_value(x[H + j]) + bias[H + j]);
    const A g = Tanh{}(s_g[j] + wide_value(x[2 * H + j]) + bias[2 * H + j]);
    const A o = Sigmoid{}(s_o[j] + wide_value(x[3 * H + j]) + bias[3 * H + j]);
    const A cell = f * c_before[j] + i * g;
    gates[j] = i;
    gates[H + j] = f;
    gates[2 * H + j] = g;
    gates[3 * H + j] = o;
    c[j] = cell;
    h[j] = narrow_value<X>(o * Tanh{}(cell));
  }
}

template <class X, class A>
LATHE_CLONES void backward_row(X* __restrict__ d_gates, A* __restrict__ dc,
                               const A* __restrict__ dh, const X* __restrict__ dy,
                               const A* __restrict__ gates, const A* __restrict__ c,
                               const A* __restrict__ c_before, int64_t H, int64_t n) {
  for (int64_t j = 0; j < n; ++j) {
    const A i = gates[j], f = gates[H + j], g = gates[2 * H + j], o = gates[3 * H + j];
    const A tanh_c = Tanh{}(c[j]), d = dh[j] + wide_value(dy[j]);
    const A d_cell = dc[j] + d * o * (A(1) - tanh_c * tanh_c);
    d_gates[j] = narrow_value<X>(d_cell * g * i * (A(1) - i));
    d_gates[H + j] = narrow_value<X>(d_cell * c_before[j] * f * (A(1) - f));
    d_gates[2 * H + j] = narrow_value<X>(d_cell * i * (A(1) - g * g));
    d_gates[3 * H + j] = narrow_value<X>(d * tanh_c * o * (A(1) - o));
    dc[j] = d_cell * f;
  }
}

template <class X, class A>
void forward_rows(const LstmForward<X, A>& u) {
  const int64_t H = u.size.H;
  for (int64_t r = 0; r < u.size.rows; ++r) {
    forward_row<X, A>(u.gates + r * 4 * H, u.c + r * H, u.h + r * u.h_row, u.sums + r * u.sum_row,
                      u.sum_gate, u.x + r * 4 * H, u.bias, u.c_before + r * H, H, u.size.units);
  }
}

template <class X, class A>
void backward_rows(const LstmBackward<X, A>& u) {
  const int64_t H = u.size.H;
  for (int64_t r = 0; r < u.size.rows; ++r) {
    backward_row<X, A>(u.d_gates + r * u.d_row, u.dc + r * H, u.dh + r * u.dh_row, u.dy + r * H,
                       u.gates + r * 4 * H, u.c + r * H, u.c_before + r * H, H, u.size.units);
  }
}

}  // namespace

void plain_lstm_forward(const LstmForward<float, float>& units) { forward_rows(units); }
void plain_lstm_forward(const LstmForward<uint16_t, float>& units) { forward_rows(units); }
void plain_lstm_backward(const LstmBackward<float, float>& units) { backward_rows(units); }
void plain_lstm_backward(const LstmBackward<uint16_t, float>& units) { backward_rows(units); }

#if !defined(__x86_64__)
// Never called there.
void lstm_forward_avx512(const LstmForward<float, float>&) {}
void lstm_forward_avx512(const LstmForward<uint16_t, float>&) {}
void lstm_backward_avx512(const LstmBackward<float, float>&) {}
void lstm_backward_avx512(const LstmBackward<uint16_t, float>&) {}
#endif

void lstm_forward(const LstmForward<double, double>& units) { forward_rows(units); }
void lstm_forward(const LstmForward<float, float>& units) {
  has_avx512() ? lstm_forward_avx512(units) : plain_lstm_forward(units);
}
void lstm_forward(const LstmForward<uint16_t, float>& units) {
  has_avx512() ? lstm_forward_avx512(units) : plain_lstm_forward(units);
}
void lstm_backward(const LstmBackward<double, double>& units) { backward_rows(units); }
void lstm_backward(const LstmBackward<float, float>& units) {
  has_avx512() ? lstm_backward_avx512(units) : plain_lstm_backward(units);
}
void lstm_backward(const LstmBackward<uint16_t, float>& units) {
  has_avx512() ? lstm_backward_avx512(units) : plain_lstm_backward(units);
}

}  // namespace lathe::cpu
