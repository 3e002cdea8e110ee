// How far two results are apart: the one measure behind the tolerances of the op tests.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "lathe/core/tensor.h"

namespace lathe::test {

/// Largest |a - b| / (largest |b| + 1); infinite if they differ in length.
inline double relative_error(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return INFINITY;
  double difference = 0, size = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference = std::max(difference, std::isfinite(a[i]) ? std::abs(a[i] - b[i]) : INFINITY);
    size = std::max(size, std::abs(b[i]));
  }
  return difference / (size + 1);
}
inline double relative_error(const Tensor& a, const Tensor& b) {
  if (!(a.shape() == b.shape())) return INFINITY;
  return relative_error(a.to_vector<double>(), b.to_vector<double>());
}

}  // namespace lathe::test
