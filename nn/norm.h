// LayerNorm, RMSNorm, LayerNorm2d, GroupNorm, InstanceNorm, LocalResponseNorm. The ops of the same
// names have the formulas. batch_norm.h has the batch norms.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>

#include "lathe/nn/module.h"
#include "lathe/ops/local_response_norm.h"

namespace lathe::nn {

struct NormOptions {
  double eps = 1e-5;
  bool affine = true;  // false: no weight and bias
  bool bias = true;    // false: no bias
};

/// Normalises over the last dimensions, whose sizes are `normalized`. The parameters weight = 1 and
/// bias = 0 have the shape `normalized`.
class LATHE_API LayerNorm final : public Module {
 public:
  explicit LayerNorm(const Shape& normalized, const NormOptions& options = {});
  /// Makes LayerNorm({5}) unambiguous.
  explicit LayerNorm(std::initializer_list<int64_t> normalized, const NormOptions& options = {})
      : LayerNorm(Shape(normalized), options) {}
  LayerNorm(Module& parent, const std::string& name, const Shape& normalized,
            const NormOptions& options = {})
      : LayerNorm(normalized, options) {
    join(parent, name);
  }

  Tensor forward(const Tensor& x) override;

  Parameter weight, bias;

 private:
  Shape normalized_;
  double eps_;
};

struct RMSNormOptions {
  std::optional<double> eps = {};  // unset: that of ops/rms_norm.h
  bool affine = true;              // false: no weight
};

/// Divides by the root mean square over the last dimensions, whose sizes are `normalized`. The
/// parameter weight = 1 has the shape `normalized`.
class LATHE_API RMSNorm final : public Module {
 public:
  explicit RMSNorm(const Shape& normalized, const RMSNormOptions& options = {});
  /// Makes RMSNorm({5}) unambiguous.
  explicit RMSNorm(std::initializer_list<int64_t> normalized, const RMSNormOptions& options = {})
      : RMSNorm(Shape(normalized), options) {}
  RMSNorm(Module& parent, const std::string& name, const Shape& normalized,
          const RMSNormOptions& options = {})
      : RMSNorm(normalized, options) {
    join(parent, name);
  }

  Tensor forward(const Tensor& x) override;

  Parameter weight;

 private:
  Shape normalized_;
  std::optional<double> eps_;
};

/// Normalises over the channels at each position of x [N,C,H,W]. Parameters: weight [C] = 1 and
/// bias [C] = 0.   → [N,C,H,W], NHWC in memory
class LATHE_API LayerNorm2d final : public Module {
 public:
  explicit LayerNorm2d(int64_t channels, const NormOptions& options = {});
  LayerNorm2d(Module& parent, const std::string& name, int64_t channels,
              const NormOptions& options = {})
      : LayerNorm2d(channels, options) {
    join(parent, name);
  }

  /// throws: ShapeError unless x is [N,C,H,W].
  Tensor forward(const Tensor& x) override;

  Parameter weight, bias;

 private:
  int64_t channels_;
  double eps_;
};

/// Normalises over each group of channels of each sample. Parameters: weight [C] = 1 and bias [C] =
/// 0.
/// throws: ValueError unless `groups` divides `channels`.
class LATHE_API GroupNorm final : public Module {
 public:
  GroupNorm(int64_t groups, int64_t channels, const NormOptions& options = {});
  GroupNorm(Module& parent, const std::string& name, int64_t groups, int64_t channels,
            const NormOptions& options = {})
      : GroupNorm(groups, channels, options) {
    join(parent, name);
  }

  Tensor forward(const Tensor& x) override;

  Parameter weight, bias;

 private:
  int64_t groups_;
  double eps_;
};

struct InstanceNormOptions {
  double eps = 1e-5;
  bool affine = false;  // true: weight and bias
};

/// y = (x - mean) / sqrt(var + eps), times weight[c] plus bias[c]; mean and variance are those of
/// one channel of one sample. x is [N,C,…] with any number of positions. Equals PyTorch's
/// InstanceNorm1d, 2d and 3d without running statistics. Parameters, if `affine`: weight [C] = 1
/// and bias [C] = 0.
/// ref: Ulyanov et al. 2016 (arXiv:1607.08022).
class LATHE_API InstanceNorm final : public Module {
 public:
  /// throws: ValueError unless channels is positive.
  explicit InstanceNorm(int64_t channels, const InstanceNormOptions& options = {});
  InstanceNorm(Module& parent, const std::string& name, int64_t channels,
               const InstanceNormOptions& options = {})
      : InstanceNorm(channels, options) {
    join(parent, name);
  }

  /// throws: ShapeError unless x is [N,channels,…] with at least one more dimension; in training
  /// also if there is only one position, because its variance is 0.
  Tensor forward(const Tensor& x) override;

  Parameter weight, bias;

 private:
  int64_t channels_;
  double eps_;
};

/// Normalises over neighbouring channels; see ops/local_response_norm.h. Has no parameters.
class LATHE_API LocalResponseNorm final : public Module {
 public:
  explicit LocalResponseNorm(const LocalResponseNormOptions& options = {}) : options_(options) {}
  explicit LocalResponseNorm(int64_t size)
      : LocalResponseNorm(LocalResponseNormOptions{.size = size}) {}
  LocalResponseNorm(Module& parent, const std::string& name,
                    const LocalResponseNormOptions& options = {})
      : LocalResponseNorm(options) {
    join(parent, name);
  }
  Tensor forward(const Tensor& x) override { return local_response_norm(x, options_); }

 private:
  LocalResponseNormOptions options_;
};

}  // namespace lathe::nn
