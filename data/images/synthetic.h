// A synthetic set of labelled images that a small network can learn: no file needed, any size, any
// number of classes.
#pragma once

#include <cstdint>

#include "lathe/core/config.h"

namespace lathe::data {

/// Image i is a function of (seed, i): neither epochs nor the size of the set change it. Training
/// and test sets are made apart by their seeds.
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

/// The class of image i: each class equally often, in an order without a pattern.
LATHE_API int64_t synthetic_label(const SyntheticOptions& options, int64_t i);

/// Writes image i as bytes [channels, height, width].
///
/// Class k shows shape k % 5 (disc, square, diamond, ring, cross) filled with stripes of direction
/// (k / 5) % 4, 4 * 1.15^(k / 20) of them across the image. Place, size, colours and the stripes'
/// phase are random, and so is the noise: no single pixel tells the class, and colour means
/// nothing.
LATHE_API void synthetic_image(const SyntheticOptions& options, int64_t i, uint8_t* out);

}  // namespace lathe::data
