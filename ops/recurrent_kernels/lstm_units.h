// What a step of lstm does beside its product, for some sequences and neighbouring units of the
// state: lstm_units_cpu.cpp, and lstm_units_avx512.cpp for processors with AVX-512. This file is
// compiled for them, too, so it includes nothing that the rest of the library uses.
//
// Rows are sequences. X is the type of the inputs and outputs, A that of computing: f64, f32, or
// bf16, as bits, and f32. Gate k of unit u stands at k * H + u of a row, in the order i, f, g, o.
#pragma once

#include <cstdint>

namespace lathe::cpu {

struct LstmSize {
  int64_t rows, units;  // units of a call
  int64_t H;            // units of the state
};

/// A row's step in elements is H, or 4 * H for gates, where no other is given.
template <class X, class A>
struct LstmForward {
  LstmSize size;
  const A*
      sums;  // w_h h, (row, gate, unit) at row * sum_row + gate * sum_gate + unit; may be gates
  int64_t sum_row, sum_gate;
  const X* x;     // w_x x + b_x
  const A* bias;  // b_h, one row
  const A* c_before;
  A* c;      // after the step
  A* gates;  // i, f, g and o
  X* h;      // after the step
  int64_t h_row;
};

/// dh, of h after the step, is the sum of dh and dy. dc, of c after the step, becomes that of c
/// before it.
template <class X, class A>
struct LstmBackward {
  LstmSize size;
  const A* dh;
  int64_t dh_row;
  const X* dy;
  A* dc;
  const A *gates, *c, *c_before;
  X* d_gates;
  int64_t d_row;
};

/// The fastest that this processor has.
void lstm_forward(const LstmForward<double, double>& units);
void lstm_forward(const LstmForward<float, float>& units);
void lstm_forward(const LstmForward<uint16_t, float>& units);
void lstm_backward(const LstmBackward<double, double>& units);
void lstm_backward(const LstmBackward<float, float>& units);
void lstm_backward(const LstmBackward<uint16_t, float>& units);

/// In plain loops.
void plain_lstm_forward(const LstmForward<float, float>& units);
void plain_lstm_forward(const LstmForward<uint16_t, float>& units);
void plain_lstm_backward(const LstmBackward<float, float>& units);
void plain_lstm_backward(const LstmBackward<uint16_t, float>& units);

/// In AVX-512.
void lstm_forward_avx512(const LstmForward<float, float>& units);
void lstm_forward_avx512(const LstmForward<uint16_t, float>& units);
void lstm_backward_avx512(const LstmBackward<float, float>& units);
void lstm_backward_avx512(const LstmBackward<uint16_t, float>& units);

}  // namespace lathe::cpu
