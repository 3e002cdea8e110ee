// Dropout of elements, channels and samples as modules; ops/dropout.h has the rule.
#pragma once

#include "lathe/nn/module.h"
#include "lathe/ops/dropout.h"

namespace lathe::nn {

/// Drops elements in training; the identity in evaluation.
class LATHE_API Dropout final : public Module {
 public:
  /// throws: ValueError for p outside [0, 1].
  explicit Dropout(double p = 0.5, Generator* generator = nullptr) : p_(p), generator_(generator) {
    LATHE_CHECK(ValueError, p >= 0 && p <= 1, "Dropout: p must be in [0,1], got ", p);
  }
  Dropout(Module& parent, const std::string& name, double p = 0.5, Generator* generator = nullptr)
      : Dropout(p, generator) {
    join(parent, name);
  }
  Tensor forward(const Tensor& x) override {
    return dropout(x, {.p = p_, .train = is_training(), .generator = generator_});
  }
  double p() const { return p_; }

 private:
  double p_;
  Generator* generator_;
};

/// For x [N,C,…]: in training sets each channel of each sample to 0 with probability p and divides
/// the other channels by 1 - p. It draws N·C random numbers. For p = 0 it returns x and draws no
/// number.
/// ref: Tompson et al. 2015, CVPR ("spatial dropout").
class LATHE_API Dropout2d final : public Module {
 public:
  /// throws: ValueError for p outside [0, 1].
  explicit Dropout2d(double p = 0.5, Generator* generator = nullptr);
  Dropout2d(Module& parent, const std::string& name, double p = 0.5, Generator* generator = nullptr)
      : Dropout2d(p, generator) {
    join(parent, name);
  }
  /// throws: ShapeError for fewer than 2 dimensions.
  Tensor forward(const Tensor& x) override;
  double p() const { return p_; }

 private:
  double p_;
  Generator* generator_;
};

/// Stochastic depth, for x [N,…]: in training sets each sample to 0 with probability p and divides
/// the other samples by 1 - p. Put it at the end of a residual branch.
/// ref: Huang et al. 2016 (arXiv:1603.09382); torchvision's StochasticDepth in its mode "row".
class LATHE_API StochasticDepth final : public Module {
 public:
  /// throws: ValueError for p outside [0, 1].
  explicit StochasticDepth(double p, Generator* generator = nullptr);
  StochasticDepth(Module& parent, const std::string& name, double p, Generator* generator = nullptr)
      : StochasticDepth(p, generator) {
    join(parent, name);
  }
  /// throws: ShapeError for a 0-d x.
  Tensor forward(const Tensor& x) override;
  double p() const { return p_; }

 private:
  double p_;
  Generator* generator_;
};

}  // namespace lathe::nn
