// The loops in tile registers and AVX-512. Contract: amx_kernels.h.
#if !defined(__AMX_BF16__) && !defined(__AMXBF16__)  // the latter: clang before 16
#  error "amx_kernels_amx.cpp needs the options of lathe_avx512() in ops/matmul_kernels/CMakeLists.txt"
#endif

#include <immintrin.h>

#include "lathe/ops/matmul_kernels/amx_kernels.h"
#include "lathe/ops/matmul_kernels/avx512.h"

namespace lathe::cpu {

namespace {

/// The operand of LDTILECFG.
struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

// The registers' numbers are part of the instructions. 0 to 3: sums of the upper and lower half of
// rows, left and right half of columns; 4 and 5: the halves of a; 6 and 7: those of b.
constexpr int64_t kHalf = 16;

/// The configurations for 1 to 32 rows.
struct TileConfigs {
  TileConfig of[kAmxBlock + 1];
};

/// A register cannot have 0 rows. Where the lower half has none, its registers have one row, whose
/// sums are not stored.
constexpr TileConfigs make_configs() {
  TileConfigs all;
  for (int64_t rows = 1; rows <= kAmxBlock; ++rows) {
    const int64_t upper = rows < kHalf ? rows : kHalf, lower = rows > kHalf ? rows - kHalf : 1;
    const int64_t of_tile[8] = {upper, upper, lower, lower, upper, lower, kHalf, kHalf};
    for (int tile = 0; tile < 8; ++tile) {
      all.of[rows].rows[tile] = static_cast<uint8_t>(of_tile[tile]);
      all.of[rows].row_bytes[tile] = 64;
    }
  }
  return all;
}

// Made by the compiler: code of this file must not run on another processor, not even before main.
constexpr TileConfigs kConfigs = make_configs();

void begin(int64_t rows) { _tile_loadconfig(&kConfigs.of[rows]); }

void end() { _tile_release(); }

void multiply(const AmxProduct& p) {
  constexpr int64_t kSize = sizeof(uint16_t), kBRow = 64 * kSize;
  constexpr int64_t row = kAmxBlock * sizeof(float);
  const int64_t a_row = p.a_row * kSize;
  const bool has_lower = p.rows > kHalf;
  float* const lower = p.sums + kHalf * kAmxBlock;
  const bool loads = p.add;
  if (loads) {
    _tile_loadd(0, p.sums, row);
    _tile_loadd(1, p.sums + kHalf, row);
  } else {
    _tile_zero(0);
    _tile_zero(1);
  }
  if (loads && has_lower) {
    _tile_loadd(2, lower, row);
    _tile_loadd(3, lower + kHalf, row);
  } else {
    _tile_zero(2);
    _tile_zero(3);
  }
  const uint16_t* a = p.a;
  const uint16_t* a_lower = has_lower ? a + kHalf * p.a_row : a;
  const uint16_t* b = p.b;
  for (int64_t step = 0; step < p.steps; ++step) {
    _tile_loadd(4, a, a_row);
    _tile_loadd(6, b, kBRow);
    _tile_loadd(7, b + 2 * kHalf, kBRow);  // pairs of 16 columns
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(5, a_lower, a_row);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
    a += kAmxTerms;
    a_lower += kAmxTerms;
    b += kHalf * 64;
  }
  _tile_stored(0, p.sums, row);
  _tile_stored(1, p.sums + kHalf, row);
  if (!has_lower) return;
  _tile_stored(2, lower, row);
  _tile_stored(3, lower + kHalf, row);
}

/// 16 numbers of two rows as pairs.
__m512i pairs(const uint16_t* even, const uint16_t* odd, __mmask16 mask) {
  const __m512i low = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, even));
  const __m512i high = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, odd));
  return _mm512_or_si512(low, _mm512_slli_epi32(high, 16));
}

/// The first of 16 numbers that exist, as a mask.
__mmask16 mask_of(int64_t n) {
  if (n >= 16) return 0xffff;
  return n <= 0 ? __mmask16{0} : static_cast<__mmask16>((1u << n) - 1);
}

void transpose(uint16_t* to, int64_t to_step, const uint16_t* const* rows, int64_t n,
               int64_t padded) {
  for (int64_t first = 0; first < padded; first += 16) {
    const __mmask16 mask = mask_of(n - first);
    __m512i lines[16];
    for (int i = 0; i < 16; ++i)
      lines[i] = pairs(rows[2 * i] + first, rows[2 * i + 1] + first, mask);
    transpose_16x16(lines);
    for (int i = 0; i < 16; ++i) _mm512_storeu_si512(to + (first + i) * to_step, lines[i]);
  }
}

void interleave(uint16_t* to, int64_t block_step, const uint16_t* const* rows, int64_t n) {
  for (int64_t first = 0; first < n; first += kAmxBlock, to += block_step) {
    const __mmask16 left = mask_of(n - first), right = mask_of(n - first - 16);
    for (int i = 0; i < 16; ++i) {
      const uint16_t *const even = rows[2 * i] + first, *const odd = rows[2 * i + 1] + first;
      _mm512_storeu_si512(to + i * 64, pairs(even, odd, left));
      _mm512_storeu_si512(to + i * 64 + 32, pairs(even + 16, odd + 16, right));
    }
  }
}

void columns(uint16_t* to, const uint16_t* const* rows, int64_t n) {
  for (int64_t first = 0; first < n; first += kAmxTerms, to += 16 * 64) {
    const int64_t left = n - first;
    const auto mask = left >= 32 ? __mmask32{0xffffffff} : (__mmask32{1} << left) - 1;
    for (int half = 0; half < 2; ++half) {  // of the columns
      __m512i lines[16];
      for (int i = 0; i < 16; ++i)
        lines[i] = _mm512_maskz_loadu_epi16(mask, rows[16 * half + i] + first);
      transpose_16x16(lines);
      for (int i = 0; i < 16; ++i) _mm512_storeu_si512(to + i * 64 + half * 32, lines[i]);
    }
  }
}

}  // namespace

AmxKernels amx_kernels_amx() { return {transpose, interleave, columns, begin, multiply, end}; }

}  // namespace lathe::cpu
