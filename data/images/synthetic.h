// A synthetic set of labelled images that a small network can learn. It needs no file and has any
// size and 1 to 200 classes.
#pragma once

#include <cstdint>

#include "lathe/core/config.h"

namespace lathe::data {

/// Image i is a function of (seed, i); neither the epoch nor the size of the set changes it. Give
/// training and test sets different seeds.
struct SyntheticOptions {
  int64_t size = 10'000;
  int64_t classes = 10;  // 1 to 200
  int64_t channels = 3, height = 32, width = 32;
  uint64_t seed = 0;
  double noise = 0.1;  // standard deviation of each pixel's noise, as a part of the full range
};

inline constexpr double kSyntheticMean = 0.48, kSyntheticStd = 0.31;  // of x / 255, about

/// throws: ValueError naming the option that is out of range.
LATHE_API void check_synthetic(const SyntheticOptions& options);

/// The class of image i. Each class is equally frequent, in an order without a pattern.
LATHE_API int64_t synthetic_label(const SyntheticOptions& options, int64_t i);

/// Writes image i as bytes [channels, height, width].
///
/// Class k shows shape k % 5 (disc, square, diamond, ring, cross), filled with stripes of direction
/// (k / 5) % 4; there are 4 * 1.15^(k / 20) stripes across the image. Place, size, colours, the
/// stripes' phase and the noise are random: no single pixel tells the class, and neither does a
/// colour.
LATHE_API void synthetic_image(const SyntheticOptions& options, int64_t i, uint8_t* out);

}  // namespace lathe::data
