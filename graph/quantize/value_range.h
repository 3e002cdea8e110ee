// The range of a value over calibration data, and the scale that follows from it. Internal:
// quantize.h is what others use.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lathe/core/tensor.h"
#include "lathe/graph/quantize/quantize.h"

namespace lathe::jit {

/// What was seen of one value. First every batch goes to widen(), then every batch to count().
class ValueRange {
 public:
  /// throws: ValueError, which names `what`, if an element is NaN or infinite.
  void widen(const Tensor& x, const std::string& what);
  void count(const Tensor& x);

  float low() const { return low_; }
  float high() const { return high_; }
  bool is_empty() const { return seen_ == 0; }
  /// kU8 if no element was below 0, else kI8.
  DType dtype() const { return low_ < 0 ? DType::kI8 : DType::kU8; }
  /// The step between two integers; 1 if all elements were 0.
  double scale(const QuantizeOptions& options) const;

 private:
  double largest() const;
  double least_squares(double levels) const;
  double quantile(double percent) const;

  float low_ = 0, high_ = 0;
  int64_t seen_ = 0;
  std::vector<int64_t> bins_;  // of |x| from 0 to the largest, without zeros
};

}  // namespace lathe::jit
