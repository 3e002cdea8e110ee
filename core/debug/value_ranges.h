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

/// Statistics of the values of one or more tensors. NaN and infinity are only counted, as
/// not_finite.
struct LATHE_API ValueRange {
  int64_t finite = 0, not_finite = 0;
  double min = 0, max = 0;  // 0 if no value is finite; sum_abs too
  double sum_abs = 0;
  int64_t zeros = 0;
  int64_t underflows = 0;  // values that f16 would make 0, except 0 itself: up to 2^-25
  int64_t overflows = 0;   // values that f16 would make infinite: from 65520 on

  double mean_abs() const { return finite > 0 ? sum_abs / static_cast<double>(finite) : 0; }
  double max_abs() const { return max > -min ? max : -min; }
  /// Adds the values of a floating tensor on any device to the range. Waits for a GPU. A tensor of
  /// another dtype adds nothing.
  /// throws: OutOfMemoryError, and what a wait for the GPU throws.
  void add(const Tensor& t);
};

/// All calls of an op by one layer.
struct LayerRange {
  std::string layer;  // whose forward pass calls the op: "Net.conv1"; empty outside of any
  std::string op;
  ValueRange output;    // of its results
  ValueRange gradient;  // of the gradients of these results
};

/// While a ValueRanges lives, it measures the results of the ops that its thread calls and autograd
/// records. It also measures the gradients of these results, in the first backward pass through
/// each op. With a loss scale, it measures the gradients of the scaled loss, because a half dtype
/// has to hold these values. Each result and each gradient is copied to the host. Ops that are
/// captured into a CUDA graph are not measured.
class LATHE_API ValueRanges {
 public:
  [[nodiscard]] ValueRanges();
  /// Must run on the thread of the constructor.
  ~ValueRanges();
  ValueRanges(const ValueRanges&) = delete;
  ValueRanges& operator=(const ValueRanges&) = delete;

  /// A row for each op of each layer, in the order of the first calls.
  std::vector<LayerRange> rows() const;
  /// The measured ranges as text. Each row has two lines: y is the op's output, dy the gradient of
  /// the output. The last line says by which power of two the gradients can grow before one is
  /// infinite in f16.
  std::string table() const;
  /// The number of recorded ops whose result still exists but has no gradient yet. If no backward
  /// pass runs, the number falls to 0 when this thread has released all results.
  size_t waiting() const;

 private:
  class Watch;
  std::unique_ptr<Watch> watch_;
};

/// The largest power of two by which the gradients of `rows` can be multiplied and stay finite in
/// f16. The loss scale may grow by this factor.
/// → 0 if all gradients are 0, or if one is not finite
LATHE_API double largest_loss_scale(const std::vector<LayerRange>& rows);

}  // namespace lathe::debug
