// The inner loops of depthwise convolution, each for kLanes channels at once. Called by
// conv2d_depthwise_cpu.cpp.
#pragma once

#include <cstdint>

namespace lathe::cpu::depthwise {

inline constexpr int64_t kLanes = 16;  // channels that are computed together

/// Pixels of a rectangle: (i, j) at data[i * row + j * col].
template <class T>
struct Pixels {
  T* data;
  int64_t row, col;
};

/// The taps of a filter: where each reads, in numbers from the pixel of x that belongs to an
/// output.
struct Taps {
  const int64_t* offsets;
  int64_t count;
};

/// Copies the first `channels` numbers, kLanes at most, of `count` pixels, which are to_col and
/// from_col apart.
void copy_pixels(float* to, int64_t to_col, const float* from, int64_t from_col, int64_t count,
                 int64_t channels);

/// y = start + the sum over taps t of w[t] * x at its offset. start and w[t] have kLanes numbers
/// each.
void sum_taps(const Pixels<float>& y, int64_t rows, int64_t cols, const Pixels<const float>& x,
              const Taps& taps, const float* w, const float* start);

/// How many taps add_products takes at a time.
inline constexpr int64_t kTapStep = 9;
/// sums[t] += the sum over pixels of dy * x at tap t's offset. The number of taps is a multiple of
/// kTapStep; sums[t] has kLanes numbers.
void add_products(float* sums, const Pixels<const float>& dy, int64_t rows, int64_t cols,
                  const Pixels<const float>& x, const Taps& taps);

}  // namespace lathe::cpu::depthwise
