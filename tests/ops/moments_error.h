// How far the moments that a convolution leaves beside its result are from those of its values.
#pragma once

#include <vector>

#include "relative_error.h"

namespace lathe::test {

/// relative_error of `moments` [2,C], mean and variance of each channel, against those of the values
/// of y [N,C,H,W], computed in f64.
inline double moments_error(const Tensor& moments, const Tensor& y) {
  const std::vector<double> values = y.to_vector<double>();
  const auto channels = static_cast<size_t>(y.dim(1));
  const auto plane = static_cast<size_t>(y.dim(2) * y.dim(3));
  const double n = static_cast<double>(values.size() / channels);
  std::vector<double> expected(2 * channels);
  for (size_t i = 0; i < values.size(); ++i) expected[i / plane % channels] += values[i] / n;
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t c = i / plane % channels;
    const double deviation = values[i] - expected[c];
    expected[channels + c] += deviation * deviation / n;
  }
  return relative_error(moments.to_vector<double>(), expected);
}

}  // namespace lathe::test
