// ValueRanges: how large the values of each layer are, forward and backward, and how many of them
// f16 cannot hold.
//
//   debug::ValueRanges ranges;
//   cross_entropy(net(x), y).backward();
//   std::cout << ranges.table();
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lathe/core/config.h"
#include "lathe/core/tensor.h"

namespace lathe::debug {

/// The values of one tensor or more. Those that are NaN or infinite are only counted.
struct LATHE_API ValueRange {
  int64_t finite = 0, not_finite = 0;
  double min = 0, max = 0;  // 0 without a finite value, as the next
  double sum_abs = 0;
  int64_t zeros = 0;
  int64_t underflows = 0;  // of values that are not 0 but would be in f16: up to 2^-25
  int64_t overflows = 0;   // of those that would be infinite there: from 65520 on

  double mean_abs() const { return finite > 0 ? sum_abs / static_cast<double>(finite) : 0; }
  double max_abs() const { return max > -min ? max : -min; }
  /// Adds the values of a floating tensor on any device; waits for a GPU. Others count nothing.
  /// throws: OutOfMemoryError, and what a wait for the GPU throws.
  void add(const Tensor& t);
};

/// All calls of an op by one layer.
struct LayerRange {
  std::string layer;  // whose forward pass calls the op: "Net.conv1"; empty outside of any
  std::string op;
  ValueRange output;    // of its results
  ValueRange gradient;  // of the gradients of these, as they come to its backward pass
};

/// While it lives, the ops that its thread calls and autograd records are looked at, and the first
/// backward pass through each of them. With a loss scale gradients are those of the scaled loss,
/// which are what a half type has to hold. Each result and each gradient is read on the host. Ops
/// that are captured into a graph are not looked at.
class LATHE_API ValueRanges {
 public:
  [[nodiscard]] ValueRanges();
  /// On the same thread.
  ~ValueRanges();
  ValueRanges(const ValueRanges&) = delete;
  ValueRanges& operator=(const ValueRanges&) = delete;

  /// In the order of the first calls.
  std::vector<LayerRange> rows() const;
  /// The same as text, two lines for a row: y its output, dy its gradient. Then how many times as
  /// large the gradients may be before f16 makes one infinite, a power of two.
  std::string table() const;
  /// Recorded ops whose gradient may still come. Without a backward pass it falls to 0 as soon as
  /// this thread has released their results.
  size_t waiting() const;

 private:
  class Watch;
  std::unique_ptr<Watch> watch_;
};

/// The largest power of two by which the gradients of `rows` can be multiplied and stay finite in
/// f16: their loss scale may grow by that.   → 0 if all are 0, or if one is not finite already
LATHE_API double largest_loss_scale(const std::vector<LayerRange>& rows);

}  // namespace lathe::debug
