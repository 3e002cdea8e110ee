// Depthwise convolution's inner loops in vector code. Contracts: depthwise_kernels_cpu.h.
//
// Products and sums are not fused, so every instruction set gives the same bits.
#include "lathe/ops/conv/cpu/depthwise_kernels_cpu.h"

#include "lathe/core/config.h"

namespace lathe::cpu::depthwise {

namespace {

using Vec = float __attribute__((vector_size(kLanes * sizeof(float))));
using LooseVec [[gnu::aligned(alignof(float)), gnu::may_alias]] = Vec;

// Pointers, because clang takes what a reference refers to for aligned.
const LooseVec* at(const float* p) { return reinterpret_cast<const LooseVec*>(p); }
LooseVec* at(float* p) { return reinterpret_cast<LooseVec*>(p); }

/// kCount neighbouring outputs, whose sums stay in registers: one tap serves all of them.
template <int kCount>
LATHE_CLONES void sum_outputs(float* y, int64_t y_col, const float* x, int64_t x_col,
                              const Taps& taps, const float* w, const float* start) {
  Vec sum[kCount];
#pragma GCC unroll 8
  for (int i = 0; i < kCount; ++i) sum[i] = *at(start);
  for (int64_t t = 0; t < taps.count; ++t) {
    const Vec tap = *at(w + t * kLanes);
    const float* const from = x + taps.offsets[t];
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) sum[i] += tap * *at(from + i * x_col);
  }
#pragma GCC unroll 8
  for (int i = 0; i < kCount; ++i) *at(y + i * y_col) = sum[i];
}

/// kTapStep taps, whose sums stay in registers. They begin with 0, so that an f32 sum is of the
/// pixels of one rectangle and not of all.
LATHE_CLONES void add_tap_products(float* sums, const Pixels<const float>& dy, int64_t rows,
                                   int64_t cols, const Pixels<const float>& x,
                                   const int64_t* offsets) {
  Vec sum[kTapStep] = {};
  for (int64_t i = 0; i < rows; ++i) {
    const float* d = dy.data + i * dy.row;
    const float* from = x.data + i * x.row;
    for (int64_t j = 0; j < cols; ++j) {
      const Vec factor = *at(d);
#pragma GCC unroll 9
      for (int t = 0; t < kTapStep; ++t) sum[t] += factor * *at(from + offsets[t]);
      d += dy.col;
      from += x.col;
    }
  }
#pragma GCC unroll 9
  for (int t = 0; t < kTapStep; ++t) *at(sums + t * kLanes) += sum[t];
}

LATHE_CLONES void copy_vectors(float* to, int64_t to_col, const float* from, int64_t from_col,
                               int64_t count) {
  for (int64_t j = 0; j < count; ++j) *at(to + j * to_col) = *at(from + j * from_col);
}

}  // namespace

void copy_pixels(float* to, int64_t to_col, const float* from, int64_t from_col, int64_t count,
                 int64_t channels) {
  if (channels == kLanes) return copy_vectors(to, to_col, from, from_col, count);
  for (int64_t j = 0; j < count; ++j) {
    for (int64_t c = 0; c < channels; ++c) to[j * to_col + c] = from[j * from_col + c];
  }
}

void sum_taps(const Pixels<float>& y, int64_t rows, int64_t cols, const Pixels<const float>& x,
              const Taps& taps, const float* w, const float* start) {
  for (int64_t i = 0; i < rows; ++i) {
    float* const to = y.data + i * y.row;
    const float* const from = x.data + i * x.row;
    int64_t j = 0;
    const auto run = [&](auto sum, int64_t count) {
      for (; j + count <= cols; j += count) {
        sum(to + j * y.col, y.col, from + j * x.col, x.col, taps, w, start);
      }
    };
    run(sum_outputs<8>, 8);
    run(sum_outputs<4>, 4);
    run(sum_outputs<2>, 2);
    run(sum_outputs<1>, 1);
  }
}

void add_products(float* sums, const Pixels<const float>& dy, int64_t rows, int64_t cols,
                  const Pixels<const float>& x, const Taps& taps) {
  for (int64_t t = 0; t < taps.count; t += kTapStep) {
    add_tap_products(sums + t * kLanes, dy, rows, cols, x, taps.offsets + t);
  }
}

}  // namespace lathe::cpu::depthwise
