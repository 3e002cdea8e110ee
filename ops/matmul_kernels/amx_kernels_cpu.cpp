// The same loops without tile registers, which tests run on any processor; and which of them runs.
// Contract: amx_kernels.h.
#include <algorithm>
#ifdef __linux__
#  include <sys/syscall.h>
#  include <unistd.h>
#endif

#include "lathe/core/ceil_div.h"
#include "lathe/core/half.h"
#include "lathe/ops/matmul_kernels/amx_kernels.h"
#include "lathe/ops/matmul_kernels/gemm_bf16.h"

namespace lathe::cpu {

namespace {

void transpose(uint16_t* to, int64_t to_step, const uint16_t* const* rows, int64_t n,
               int64_t padded) {
  for (int64_t c = 0; c < padded; ++c)
    for (int64_t i = 0; i < kAmxTerms; ++i) to[c * to_step + i] = c < n ? rows[i][c] : uint16_t{0};
}

void interleave(uint16_t* to, int64_t block_step, const uint16_t* const* rows, int64_t n) {
  for (int64_t first = 0; first < n; first += kAmxBlock, to += block_step)
    for (int64_t i = 0; i < kAmxTerms; ++i)
      for (int64_t c = 0; c < kAmxBlock; ++c)
        to[i / 2 * 64 + c * 2 + i % 2] = first + c < n ? rows[i][first + c] : uint16_t{0};
}

void columns(uint16_t* to, const uint16_t* const* rows, int64_t n) {
  for (int64_t c = 0; c < round_up(n, kAmxTerms); ++c)
    for (int64_t i = 0; i < kAmxBlock; ++i)
      to[c / 2 * 64 + i * 2 + c % 2] = c < n ? rows[i][c] : uint16_t{0};
}

void begin(int64_t /*rows*/) {}
void end() {}

float number(uint16_t bits) { return float{BFloat16::from_bits(bits)}; }

void multiply(const AmxProduct& p) {
  for (int64_t row = 0; row < p.rows; ++row) {
    float* const sums = p.sums + row * kAmxBlock;
    if (!p.add) std::fill_n(sums, kAmxBlock, 0.0f);
    for (int64_t term = 0; term < p.steps * kAmxTerms; ++term) {
      const float a = number(p.a[row * p.a_row + term]);
      const uint16_t* const b = p.b + term / 2 * 64 + term % 2;
      for (int64_t column = 0; column < kAmxBlock; ++column)
        sums[column] += a * number(b[column * 2]);
    }
  }
}

/// Asks the operating system for the tile registers (Linux: arch_prctl). False if it refuses.
bool request_tile_registers() noexcept {
#if defined(__linux__) && defined(__x86_64__)
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

}  // namespace

bool has_tile_registers() noexcept {
  static const bool has = multiplies_tiles() && request_tile_registers();
  return has;
}

const AmxKernels& amx_kernels() {
  static const AmxKernels best = [] {
#if defined(__x86_64__)
    if (has_tile_registers()) return amx_kernels_amx();
#endif
    return amx_kernels_base();
  }();
  return best;
}

AmxKernels amx_kernels_base() { return {transpose, interleave, columns, begin, multiply, end}; }

}  // namespace lathe::cpu
