// Batch normalisation layers; see ops/batch_norm.h for the formula. batch_norm_synced.cpp has the
// case where several processes share their statistics.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "lathe/nn/module.h"

namespace lathe {
struct Conv2dOptions;     // ops/conv2d.h
struct BatchNormOptions;  // ops/batch_norm.h
}  // namespace lathe

namespace lathe::nn {

struct BatchNormOptions {
  double eps = 1e-5;
  std::optional<double> momentum = 0.1;  // weight of the new value; absent: cumulative average
  bool affine = true;                    // false: no weight and bias
  bool track_running_stats = true;       // false: uses batch statistics in evaluation, too
};

class BatchNorm;

/// The result of BatchNorm::relu; converts to a Tensor. In conv(norm.relu(x)) both layers can run
/// as one op (ops/batch_norm_conv2d.h), which never stores the values between them. For this,
/// relu() may postpone its work: then the conversion to a Tensor, or the convolution, computes the
/// values. relu() postpones only in training mode: on a CPU for f32 in NHWC, on a GPU for f16.
/// Rules for postponed values:
///   - The values are those that relu() would have computed when it was called, under the grad mode
///     of that call.
///   - Do not write to x, weight or bias before the values are computed.
///   - If nobody uses the values, nothing is computed, and the running statistics do not change.
/// Copies share their values. Only one thread at a time may use them.
/// throws: StateError if x, weight or bias was written before the values were computed.
class LATHE_API NormRelu {
 public:
  operator Tensor() const;

  /// True if the values of this NormRelu are not computed yet, and the grad mode is the same as in
  /// the call of relu(). Conv2d may then compute them together with its own result.
  bool waits() const;
  /// conv2d(values, w, conv), as one op if possible.
  /// throws: StateError unless waits(); what conv2d throws.
  Tensor into_conv2d(const Tensor& w, const lathe::Conv2dOptions& conv) const;

 private:
  friend BatchNorm;
  struct Waiting;
  explicit NormRelu(const Tensor& value) : value_(value) {}
  explicit NormRelu(std::shared_ptr<Waiting> waiting) : waiting_(std::move(waiting)) {}

  Tensor value_;
  std::shared_ptr<Waiting> waiting_;  // null if value_ is there
};

/// Base of BatchNorm1d and BatchNorm2d. Parameters: weight [C] = 1 and bias [C] = 0. Buffers:
/// running_mean [C] = 0, running_var [C] = 1 and num_batches_tracked (i64, 0-d). Every forward() in
/// training adds 1 to num_batches_tracked. to(kF16) and to(kBF16) leave parameters and statistics
/// in f32.
class LATHE_API BatchNorm : public Module {
 public:
  Tensor forward(const Tensor& x) final;
  /// relu(x) returns relu(forward(x)), and add_relu(x, residual) returns relu(forward(x) +
  /// residual), each as one op. This module's hooks run before and after that op.
  [[nodiscard]] NormRelu relu(const Tensor& x);
  Tensor add_relu(const Tensor& x, const Tensor& residual);
  const BatchNormOptions& options() const { return options_; }

  /// Makes training use the statistics of several processes. `sum` returns the sum of a tensor over
  /// all processes that normalise together, and is differentiable. With an empty function the
  /// statistics are those of this process alone. See distributed/sync_batch_norm.h.
  void set_sum_over_ranks(std::function<Tensor(const Tensor&)> sum) { sum_ = std::move(sum); }
  /// True in training mode if set_sum_over_ranks() gave a function.
  bool is_synced() const { return sum_ && is_training(); }

  Parameter weight, bias;
  Tensor running_mean, running_var, num_batches_tracked;

 protected:
  /// throws: ValueError unless channels > 0 and eps >= 0.
  BatchNorm(int64_t channels, const BatchNormOptions& options);
  /// throws: ShapeError.
  virtual void check_input(const Tensor& x) const = 0;
  DType dtype_for(DType asked, const Tensor&) const override {
    return is_half(asked) ? kF32 : asked;
  }

 private:
  template <class Op>
  Tensor normalize(const Tensor& x, Op&& op);
  Tensor relu_now(const Tensor& x);
  Tensor synced(const Tensor& x, const lathe::BatchNormOptions& how);
  void move_running(const Tensor& mean, const Tensor& var, double count,
                    const lathe::BatchNormOptions& how);

  BatchNormOptions options_;
  std::function<Tensor(const Tensor&)> sum_;
};

/// Batch norm over x [N,C] or [N,C,L].
class LATHE_API BatchNorm1d final : public BatchNorm {
 public:
  explicit BatchNorm1d(int64_t channels, const BatchNormOptions& options = {})
      : BatchNorm(channels, options) {}
  BatchNorm1d(Module& parent, const std::string& name, int64_t channels,
              const BatchNormOptions& options = {})
      : BatchNorm1d(channels, options) {
    join(parent, name);
  }

 private:
  void check_input(const Tensor& x) const override;
};

/// Batch norm over x [N,C,H,W].
class LATHE_API BatchNorm2d final : public BatchNorm {
 public:
  explicit BatchNorm2d(int64_t channels, const BatchNormOptions& options = {})
      : BatchNorm(channels, options) {}
  BatchNorm2d(Module& parent, const std::string& name, int64_t channels,
              const BatchNormOptions& options = {})
      : BatchNorm2d(channels, options) {
    join(parent, name);
  }

 private:
  void check_input(const Tensor& x) const override;
};

}  // namespace lathe::nn
