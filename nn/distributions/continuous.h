// Distributions of a real number. Parameters broadcast; their shape is the batch.
#pragma once

#include "lathe/nn/distributions/distribution.h"

namespace lathe::distributions {

/// The normal distribution with mean `loc` and standard deviation `scale` > 0.
class LATHE_API Normal final : public Distribution {
 public:
  Normal(const Param& loc, const Param& scale);
  Tensor log_prob(const Tensor& value) const override;
  Tensor entropy() const override;
  Tensor cdf(const Tensor& value) const override;
  Tensor mean() const override { return loc; }
  Tensor variance() const override;

  Tensor loc, scale;

 private:
  explicit Normal(const Tensors& p);
  Tensor draw(const Shape& sample_shape, Generator* generator) const override;
};

/// e^X for X ~ Normal(loc, scale); the support is x > 0.
class LATHE_API LogNormal final : public Distribution {
 public:
  LogNormal(const Param& loc, const Param& scale);
  Tensor log_prob(const Tensor& value) const override;
  Tensor entropy() const override;
  Tensor cdf(const Tensor& value) const override;
  Tensor mean() const override;
  Tensor variance() const override;

  Normal base;

 private:
  explicit LogNormal(const Normal& normal);
  Tensor draw(const Shape& sample_shape, Generator* generator) const override;
};

/// Uniform in [low, high), low < high. The density at `high` is 0.
class LATHE_API Uniform final : public Distribution {
 public:
  Uniform(const Param& low, const Param& high);
  Tensor log_prob(const Tensor& value) const override;
  Tensor entropy() const override;
  Tensor cdf(const Tensor& value) const override;
  Tensor mean() const override;
  Tensor variance() const override;

  Tensor low, high;

 private:
  explicit Uniform(const Tensors& p);
  Tensor draw(const Shape& sample_shape, Generator* generator) const override;
};

/// The exponential distribution with mean 1 / rate, rate > 0.
class LATHE_API Exponential final : public Distribution {
 public:
  explicit Exponential(const Param& rate);
  Tensor log_prob(const Tensor& value) const override;
  Tensor entropy() const override;
  Tensor cdf(const Tensor& value) const override;
  Tensor mean() const override;
  Tensor variance() const override;

  Tensor rate;

 private:
  explicit Exponential(const Tensors& p);
  Tensor draw(const Shape& sample_shape, Generator* generator) const override;
};

/// The gamma distribution with mean concentration / rate; both are positive. Its samples have a
/// gradient, but no second derivative. They are computed on the CPU.
class LATHE_API Gamma final : public Distribution {
 public:
  Gamma(const Param& concentration, const Param& rate);
  Tensor log_prob(const Tensor& value) const override;
  Tensor entropy() const override;
  Tensor mean() const override;
  Tensor variance() const override;

  Tensor concentration, rate;

 private:
  explicit Gamma(const Tensors& p);
  Tensor draw(const Shape& sample_shape, Generator* generator) const override;
};

/// The beta distribution on [0, 1], density ∝ x^(concentration1 - 1) (1 - x)^(concentration0 - 1);
/// both are positive. Samples are computed from samples of Gamma.
class LATHE_API Beta final : public Distribution {
 public:
  Beta(const Param& concentration1, const Param& concentration0);
  Tensor log_prob(const Tensor& value) const override;
  Tensor entropy() const override;
  Tensor mean() const override;
  Tensor variance() const override;

  Tensor concentration1, concentration0;

 private:
  explicit Beta(const Tensors& p);
  Tensor draw(const Shape& sample_shape, Generator* generator) const override;
};

}  // namespace lathe::distributions
