// Units of lstm in AVX-512, 16 at a time. Contract: lstm_units.h.
#ifndef __AVX512DQ__
#  error "lstm_units_avx512.cpp needs the options of lathe_avx512() in cmake/LatheFlags.cmake"
#endif

#include "lathe/ops/avx512_math.h"
#include "lathe/ops/recurrent_kernels/lstm_units.h"

namespace lathe::cpu {

namespace {

using avx512::sigmoid_of;
using avx512::tanh_of;

__m512 load(__mmask16 mask, const float* from) { return _mm512_maskz_loadu_ps(mask, from); }
__m512 load(__mmask16 mask, const uint16_t* from) {
  const __m512i bits = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, from));
  return _mm512_castsi512_ps(_mm512_slli_epi32(bits, 16));
}
void store(float* to, __mmask16 mask, __m512 x) { _mm512_mask_storeu_ps(to, mask, x); }
/// Rounds to nearest even; every NaN becomes 0x7fff, as in core/half.h.
void store(uint16_t* to, __mmask16 mask, __m512 x) {
  const __m512i bits = _mm512_castps_si512(x);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i up = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
  const __mmask16 is_nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
  const __m512i rounded =
      _mm512_mask_mov_epi32(_mm512_srli_epi32(up, 16), is_nan, _mm512_set1_epi32(0x7fff));
  _mm256_mask_storeu_epi16(to, mask, _mm512_cvtepi32_epi16(rounded));
}

__mmask16 first_units(int64_t n) {
  return n >= 16 ? __mmask16{0xffff} : static_cast<__mmask16>((1u << n) - 1);
}

template <class X>
void forward_row(const LstmForward<X, float>& u, int64_t row) {
  const int64_t H = u.size.H;
  const float* const sums = u.sums + row * u.sum_row;
  const X* const x = u.x + row * 4 * H;
  float* const gates = u.gates + row * 4 * H;
  for (int64_t j = 0; j < u.size.units; j += 16) {
    const __mmask16 mask = first_units(u.size.units - j);
    __m512 gate[4];
    for (int64_t k = 0; k < 4; ++k) {
      const int64_t at = k * H + j;
      const __m512 sum = _mm512_add_ps(_mm512_add_ps(load(mask, sums + k * u.sum_gate + j),  //
                                                     load(mask, x + at)),
                                       load(mask, u.bias + at));
      gate[k] = k == 2 ? tanh_of(sum) : sigmoid_of(sum);
    }
    for (int64_t k = 0; k < 4; ++k) store(gates + k * H + j, mask, gate[k]);
    const __m512 before = load(mask, u.c_before + row * H + j);
    const __m512 c = _mm512_fmadd_ps(gate[1], before, _mm512_mul_ps(gate[0], gate[2]));
    store(u.c + row * H + j, mask, c);
    store(u.h + row * u.h_row + j, mask, _mm512_mul_ps(gate[3], tanh_of(c)));
  }
}

template <class X>
void backward_row(const LstmBackward<X, float>& u, int64_t row) {
  const int64_t H = u.size.H;
  const float* const gates = u.gates + row * 4 * H;
  X* const to = u.d_gates + row * u.d_row;
  for (int64_t j = 0; j < u.size.units; j += 16) {
    const __mmask16 mask = first_units(u.size.units - j);
    const int64_t at = row * H + j;
    const __m512 i = load(mask, gates + j), f = load(mask, gates + H + j);
    const __m512 g = load(mask, gates + 2 * H + j), o = load(mask, gates + 3 * H + j);
    const __m512 tanh_c = tanh_of(load(mask, u.c + at)), one = avx512::all(1);
    const __m512 d = _mm512_add_ps(load(mask, u.dh + row * u.dh_row + j), load(mask, u.dy + at));
    const __m512 of_tanh = _mm512_fnmadd_ps(tanh_c, tanh_c, one);
    const __m512 d_cell = _mm512_fmadd_ps(_mm512_mul_ps(d, o), of_tanh, load(mask, u.dc + at));
    // d sigmoid = s (1 - s), d tanh = 1 - t²
    const __m512 of_i = _mm512_mul_ps(i, _mm512_sub_ps(one, i));
    const __m512 of_f = _mm512_mul_ps(f, _mm512_sub_ps(one, f));
    const __m512 of_o = _mm512_mul_ps(o, _mm512_sub_ps(one, o));
    const __m512 of_g = _mm512_fnmadd_ps(g, g, one);
    const __m512 before = load(mask, u.c_before + at);
    store(to + j, mask, _mm512_mul_ps(_mm512_mul_ps(d_cell, g), of_i));
    store(to + H + j, mask, _mm512_mul_ps(_mm512_mul_ps(d_cell, before), of_f));
    store(to + 2 * H + j, mask, _mm512_mul_ps(_mm512_mul_ps(d_cell, i), of_g));
    store(to + 3 * H + j, mask, _mm512_mul_ps(_mm512_mul_ps(d, tanh_c), of_o));
    store(u.dc + at, mask, _mm512_mul_ps(d_cell, f));
  }
}

}  // namespace

void lstm_forward_avx512(const LstmForward<float, float>& units) {
  for (int64_t row = 0; row < units.size.rows; ++row) forward_row(units, row);
}
void lstm_forward_avx512(const LstmForward<uint16_t, float>& units) {
  for (int64_t row = 0; row < units.size.rows; ++row) forward_row(units, row);
}
void lstm_backward_avx512(const LstmBackward<float, float>& units) {
  for (int64_t row = 0; row < units.size.rows; ++row) backward_row(units, row);
}
void lstm_backward_avx512(const LstmBackward<uint16_t, float>& units) {
  for (int64_t row = 0; row < units.size.rows; ++row) backward_row(units, row);
}

}  // namespace lathe::cpu
