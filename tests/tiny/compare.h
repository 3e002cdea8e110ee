// Tensors of tiny/ beside Lathe's.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "../../tiny/tensor.h"
#include "lathe/core/tensor.h"
#include "lathe/ops/creation.h"

namespace lathe::test {

/// What both may differ by, in units of the largest number of the tensor, or of 1 if that is larger.
/// The sums have the same terms in another order; in f64 1e-12 is far above what that makes.
inline constexpr double kSame = 1e-12;

inline std::vector<double> values_of(const tiny::Tensor& x) {
  const tiny::Tensor dense = tiny::copy_of(x);
  return {dense.data(), dense.data() + dense.numel()};
}

/// The same numbers as a tensor of Lathe's, f64.
inline Tensor to_lathe(const tiny::Tensor& x) {
  return tensor(values_of(x)).reshape(Shape(x.shape()));
}

/// The largest difference, in units as above; infinite if the shapes differ.
inline double difference(const tiny::Tensor& ours, const Tensor& theirs) {
  if (!ours.defined() || !theirs.defined() || theirs.shape() != Shape(ours.shape()))
    return INFINITY;
  const std::vector<double> a = values_of(ours), b = theirs.to_vector<double>();
  double largest = 1, difference = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) != std::isnan(b[i])) return INFINITY;
    if (std::isnan(a[i])) continue;
    largest = std::max(largest, std::abs(b[i]));
    difference = std::max(difference, std::abs(a[i] - b[i]));
  }
  return difference / largest;
}

}  // namespace lathe::test
