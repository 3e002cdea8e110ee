// The same loops without tile registers, which tests/ops/conv2d_amx_test.cpp runs on any processor.
// Contract: amx_kernels.h.
#include <algorithm>

#include "lathe/core/half.h"
#include "lathe/ops/conv/cpu/amx_kernels.h"

namespace lathe::cpu {

namespace {

void transpose(uint16_t* to, int64_t to_step, const uint16_t* const* pixels, int64_t channels,
               int64_t padded) {
  for (int64_t c = 0; c < padded; ++c)
    for (int64_t i = 0; i < kAmxPixels; ++i)
      to[c * to_step + i] = c < channels ? pixels[i][c] : uint16_t{0};
}

void interleave(uint16_t* to, int64_t block_step, const uint16_t* const* pixels, int64_t channels) {
  for (int64_t first = 0; first < channels; first += kAmxBlock, to += block_step)
    for (int64_t i = 0; i < kAmxPixels; ++i)
      for (int64_t c = 0; c < kAmxBlock; ++c)
        to[i / 2 * 64 + c * 2 + i % 2] = first + c < channels ? pixels[i][first + c] : uint16_t{0};
}

void begin(int64_t /*rows*/) {}
void end() {}

float number(uint16_t bits) { return float{BFloat16::from_bits(bits)}; }

void multiply(const AmxProduct& p) {
  for (int64_t row = 0; row < p.rows; ++row) {
    float* const sums = p.sums + row * kAmxBlock;
    if (!p.add) std::fill_n(sums, kAmxBlock, 0.0f);
    for (int64_t pixel = 0; pixel < p.steps * kAmxPixels; ++pixel) {
      const float a = number(p.a[row * p.a_row + pixel]);
      const uint16_t* const b = p.b + pixel / 2 * 64 + pixel % 2;
      for (int64_t column = 0; column < kAmxBlock; ++column)
        sums[column] += a * number(b[column * 2]);
    }
  }
}

}  // namespace

AmxKernels amx_kernels_base() { return {transpose, interleave, begin, multiply, end}; }

}  // namespace lathe::cpu
