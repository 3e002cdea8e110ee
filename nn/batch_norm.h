// Batch normalisation layers; see ops/batch_norm.h for the formula. batch_norm.cpp; and
// batch_norm_synced.cpp, where several processes share their statistics.
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

/// What BatchNorm::relu returns: its values, as a Tensor when they are asked for. Given straight to
/// a Conv2d, conv(norm.relu(x)), the layers can become one op (ops/batch_norm_conv2d.h), which
/// never writes the values down. In training on a CPU (f32, NHWC) and on a GPU (f16) they wait for
/// that; elsewhere they are computed at once. Values that wait and are asked for later are those of
/// the call: its parameters and its grad mode count. x, weight and bias must not be written in
/// between. If nobody asks, nothing is computed, and the running statistics do not move. Copies
/// share their values; one thread at a time may use them.
/// throws: StateError if one of the three was written before the values were asked for.
class LATHE_API NormRelu {
 public:
  operator Tensor() const;

  /// For Conv2d. True while nothing is computed, in the grad mode of the call.
  bool waits() const;
  /// conv2d(values, w, conv), as one op where that can be.
  /// throws: StateError if they do not wait; as conv2d.
  Tensor into_conv2d(const Tensor& w, const lathe::Conv2dOptions& conv) const;

 private:
  friend BatchNorm;
  struct Waiting;
  explicit NormRelu(const Tensor& value) : value_(value) {}
  explicit NormRelu(std::shared_ptr<Waiting> waiting) : waiting_(std::move(waiting)) {}

  Tensor value_;
  std::shared_ptr<Waiting> waiting_;  // null if value_ is there
};

/// What BatchNorm1d and BatchNorm2d share. Parameters: weight [C] = 1 and bias [C] = 0. Buffers:
/// running_mean [C] = 0, running_var [C] = 1 and num_batches_tracked (i64, 0-d), which every
/// training forward raises by 1. Parameters and statistics stay f32 where a half type is asked for.
class LATHE_API BatchNorm : public Module {
 public:
  Tensor forward(const Tensor& x) final;
  /// relu(forward(x)) and relu(forward(x) + residual) as one op each. This module's hooks run
  /// before and after it.
  [[nodiscard]] NormRelu relu(const Tensor& x);
  Tensor add_relu(const Tensor& x, const Tensor& residual);
  const BatchNormOptions& options() const { return options_; }

  /// In training, `sum` gives the sum of a tensor over all processes that normalise together, with
  /// its gradient; the statistics are then those of all their values. An empty function: of this
  /// process's values alone. See distributed/sync_batch_norm.h.
  void set_sum_over_ranks(std::function<Tensor(const Tensor&)> sum) { sum_ = std::move(sum); }
  /// True in training mode with such a function.
  bool is_synced() const { return sum_ && is_training(); }

  Parameter weight, bias;
  Tensor running_mean, running_var, num_batches_tracked;

 protected:
  /// throws: ValueError unless channels > 0 and eps >= 0.
  BatchNorm(int64_t channels, const BatchNormOptions& options);
  /// throws: ShapeError.
  virtual void check_input(const Tensor& x) const = 0;
  DType dtype_for(DType asked) const override { return is_half(asked) ? kF32 : asked; }

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

/// [N,C] or [N,C,L].
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

/// [N,C,H,W].
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
