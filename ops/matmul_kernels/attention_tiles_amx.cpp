// The loops between attention's products in AVX-512. Contract: attention_tiles.h.
#ifndef __AVX512BF16__
#  error "attention_tiles_amx.cpp needs the options of lathe_avx512() in ops/matmul_kernels/CMakeLists.txt"
#endif

#include <immintrin.h>

#include "lathe/ops/avx512_math.h"
#include "lathe/ops/matmul_kernels/attention_tiles.h"
#include "lathe/ops/matmul_kernels/avx512.h"

namespace lathe::cpu {

namespace {

constexpr int64_t kRow = kTileQueries;

/// 16 numbers in bf16, `even` and `odd` as neighbours.
__m512i pairs_of(__m512 even, __m512 odd) {
  const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24,
                                         8, 23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  const auto halves = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(odd, even));
  return _mm512_permutexvar_epi16(order, halves);
}

void store(uint16_t* to, __m512i bits) { _mm512_storeu_si512(to, bits); }

/// e^x to 4e-6 of it, where bf16 has 4e-3: 2^y by a polynomial for y - floor(y) in [0, 1), which
/// is 1 at 0 and 2 at 1.
__m512 exp_of(__m512 x) {
  constexpr int kFromFloor = 0x09;  // y - floor(y), without exceptions
  const __m512 y = _mm512_mul_ps(x, _mm512_set1_ps(1.44269504f));
  const __m512 p = cpu::avx512::polynomial(
      _mm512_reduce_ps(y, kFromFloor), {0.013555747f, 0.05203237f, 0.24137977f, 0.69303215f, 1.0f});
  return _mm512_scalef_ps(p, y);  // p * 2^floor(y), for infinite y too
}

/// What MaskTile has for 16 queries from q and 16 keys from k, as one vector of queries for each
/// key: floats as they are, bools as whole numbers.
void read_mask(__m512i* keys, const MaskTile& t, int64_t q, int64_t k) {
  const int64_t queries = t.queries - q, n = t.keys - k < 16 ? t.keys - k : 16;
  const auto mask = static_cast<__mmask16>(n == 16 ? 0xffff : (1 << n) - 1);
  for (int64_t i = 0; i < 16; ++i) {
    keys[i] = _mm512_setzero_si512();
    if (i >= queries) continue;
    const int64_t at = (q + i) * t.of_query + k * t.of_key;
    if (t.of_key == 1 && t.looks != nullptr) {
      keys[i] = _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(mask, t.looks + at));
    } else if (t.of_key == 1) {
      keys[i] = _mm512_maskz_loadu_epi32(mask, t.added + at);
    } else {
      int32_t numbers[16] = {};
      for (int64_t j = 0; j < n; ++j) {
        const int64_t place = at + j * t.of_key;
        if (t.looks != nullptr) {
          numbers[j] = t.looks[place];
        } else {
          numbers[j] = __builtin_bit_cast(int32_t, t.added[place]);
        }
      }
      keys[i] = _mm512_loadu_si512(numbers);
    }
  }
  transpose_16x16(keys);
}

void mask(const MaskTile& t) {
  const __m512 scale = _mm512_set1_ps(t.scale), least = _mm512_set1_ps(t.least);
  const __m512 hidden = _mm512_set1_ps(-__builtin_inff());
  for (int64_t q = 0; q < kRow; q += 16) {
    for (int64_t k = 0; k < t.keys; k += 16) {
      __m512i keys[16];
      if (t.looks != nullptr || t.added != nullptr) read_mask(keys, t, q, k);
      for (int64_t i = 0; i < 16 && k + i < t.keys; ++i) {
        float* const at = t.scores + (k + i) * kRow + q;
        __m512 score = _mm512_mul_ps(_mm512_loadu_ps(at), scale);
        __mmask16 hides = 0;
        if (t.looks != nullptr) hides = _mm512_cmpeq_epi32_mask(keys[i], _mm512_setzero_si512());
        if (t.added != nullptr) {
          score = _mm512_add_ps(score, _mm512_castsi512_ps(keys[i]));
          hides = _mm512_cmp_ps_mask(score, least, _CMP_LE_OQ);
        }
        _mm512_storeu_ps(at, _mm512_mask_mov_ps(score, hides, hidden));
      }
    }
  }
}

/// The larger of two. NaN if a score is, or not: its weight is NaN in any case.
__m512 larger(__m512 a, const float* b) { return _mm512_max_ps(a, _mm512_loadu_ps(b)); }

/// For 16 queries, as soften().
bool soften_half(const SoftmaxTile& t, int64_t first) {
  const float* const scores = t.scores + first;
  const __m512 before = _mm512_loadu_ps(t.largest + first);
  __m512 most[4] = {before, before, before, before};
  int64_t k = 0;
  for (; k + 4 <= t.keys; k += 4) {
    for (int i = 0; i < 4; ++i) most[i] = larger(most[i], scores + (k + i) * kRow);
  }
  for (; k < t.keys; ++k) most[0] = larger(most[0], scores + k * kRow);
  const __m512 largest = _mm512_max_ps(_mm512_max_ps(most[0], most[1]),  //
                                       _mm512_max_ps(most[2], most[3]));
  const __m512 none = _mm512_set1_ps(-__builtin_inff()), scale = _mm512_set1_ps(t.scale);
  // Where all are hidden, weights of exp(-inf).
  const __m512 from = _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(largest, none, _CMP_NEQ_UQ), largest);
  const auto weight_of = [&](__m512 score) {
    return exp_of(_mm512_mul_ps(_mm512_sub_ps(score, from), scale));
  };
  const __m512 shrink = weight_of(before);
  const auto weight = [&](int64_t key) { return weight_of(_mm512_loadu_ps(scores + key * kRow)); };
  __m512 sum[4] = {};
  uint16_t* const to = t.weights + first * 2;
  for (k = 0; k + 4 <= t.keys; k += 4) {
    __m512 w[4];
    for (int i = 0; i < 4; ++i) w[i] = weight(k + i);
    for (int i = 0; i < 4; ++i) sum[i] = _mm512_add_ps(sum[i], w[i]);
    store(to + k * kRow, pairs_of(w[0], w[1]));
    store(to + (k + 2) * kRow, pairs_of(w[2], w[3]));
  }
  for (; k < t.keys; k += 2) {
    const __m512 even = weight(k), odd = k + 1 < t.keys ? weight(k + 1) : _mm512_setzero_ps();
    sum[0] = _mm512_add_ps(sum[0], even);
    sum[1] = _mm512_add_ps(sum[1], odd);
    store(to + k * kRow, pairs_of(even, odd));
  }
  for (; k % kRow != 0; k += 2) store(to + k * kRow, _mm512_setzero_si512());
  const __m512 all = _mm512_add_ps(_mm512_add_ps(sum[0], sum[1]), _mm512_add_ps(sum[2], sum[3]));
  _mm512_storeu_ps(t.sum + first, _mm512_fmadd_ps(_mm512_loadu_ps(t.sum + first), shrink, all));
  _mm512_storeu_ps(t.largest + first, largest);
  _mm512_storeu_ps(t.shrink + first, shrink);
  return _mm512_cmp_ps_mask(shrink, _mm512_set1_ps(1.0f), _CMP_NEQ_UQ) != 0;
}

bool soften(const SoftmaxTile& t) {
  const bool left = soften_half(t, 0), right = soften_half(t, 16);
  return left || right;
}

void differentiate(const GradientTile& t) {
  const __m512 scale = _mm512_set1_ps(t.scale);
  __m512 logs[2], delta[2];
  for (int half = 0; half < 2; ++half) {
    logs[half] = _mm512_loadu_ps(t.logs + 16 * half);
    delta[half] = _mm512_loadu_ps(t.delta + 16 * half);
  }
  for (int64_t k = 0; k < kRow; k += 2) {
    __m512 w[2][2], d[2][2];  // [key][half of the queries]
    for (int i = 0; i < 2; ++i) {
      for (int half = 0; half < 2; ++half) {
        const int64_t at = (k + i) * kRow + 16 * half;
        const auto counts = static_cast<__mmask16>(k + i < t.keys ? 0xffff : 0);
        w[i][half] = _mm512_maskz_mov_ps(
            counts, exp_of(_mm512_fmsub_ps(_mm512_loadu_ps(t.scores + at), scale, logs[half])));
        d[i][half] = _mm512_maskz_mul_ps(
            counts, w[i][half], _mm512_sub_ps(_mm512_loadu_ps(t.d_weights + at), delta[half]));
      }
      const int64_t row = (k + i) * t.step;
      store(t.weights + row, reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(w[i][1], w[i][0])));
      store(t.d_scores + row, reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(d[i][1], d[i][0])));
    }
    store(t.d_pairs + k * kRow, pairs_of(d[0][0], d[1][0]));
    store(t.d_pairs + k * kRow + kRow, pairs_of(d[0][1], d[1][1]));
  }
}

void scale_columns(float* sums, int64_t rows, const float* factors) {
  const __m512 left = _mm512_loadu_ps(factors), right = _mm512_loadu_ps(factors + 16);
  for (int64_t r = 0; r < rows; ++r, sums += kRow) {
    _mm512_storeu_ps(sums, _mm512_mul_ps(_mm512_loadu_ps(sums), left));
    _mm512_storeu_ps(sums + 16, _mm512_mul_ps(_mm512_loadu_ps(sums + 16), right));
  }
}

void write_columns(uint16_t* to, const float* sums, const float* factors, int64_t queries,
                   int64_t n) {
  for (int64_t q = 0; q < queries; q += 16) {
    const __m512 factor = _mm512_loadu_ps(factors + q);
    const __mmask16 counts = _mm512_cmp_ps_mask(factor, _mm512_setzero_ps(), _CMP_NEQ_UQ);
    const auto line = [&](int64_t i) {
      return i < n ? _mm512_maskz_mul_ps(counts, _mm512_loadu_ps(sums + i * kRow + q), factor)
                   : _mm512_setzero_ps();
    };
    const int64_t rows = queries - q < 16 ? queries - q : 16;
    for (int64_t i = 0; i < n; i += 32) {
      __m512i pairs[16];
      for (int k = 0; k < 16; ++k) pairs[k] = pairs_of(line(i + 2 * k), line(i + 2 * k + 1));
      transpose_16x16(pairs);
      const auto mask = n - i >= 32 ? __mmask32{0xffffffff} : (__mmask32{1} << (n - i)) - 1;
      for (int64_t r = 0; r < rows; ++r)
        _mm512_mask_storeu_epi16(to + (q + r) * n + i, mask, pairs[r]);
    }
  }
}

}  // namespace

AttentionTiles attention_tiles_amx() {
  return {mask, soften, differentiate, scale_columns, write_columns};
}

}  // namespace lathe::cpu
