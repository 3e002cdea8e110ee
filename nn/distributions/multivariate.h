// Distributions of a vector.
#pragma once

#include "lathe/nn/distributions/distribution.h"

namespace lathe::distributions {

/// Probabilities of K classes: a value is […batch,K], at least 0, and sums to 1. concentration
/// […batch,K] is positive. Samples are computed from samples of Gamma.
class LATHE_API Dirichlet final : public Distribution {
 public:
  explicit Dirichlet(const Tensor& concentration);
  Tensor log_prob(const Tensor& value) const override;
  Tensor entropy() const override;
  Tensor mean() const override;
  Tensor variance() const override;

  Tensor concentration;

 private:
  Tensor draw(const Shape& sample_shape, Generator* generator) const override;
};

/// The covariance in one of three forms, each […,d,d]. Set exactly one.
struct CovarianceOptions {
  Tensor covariance_matrix = {};  // positive definite
  Tensor precision_matrix = {};   // the covariance's inverse
  Tensor scale_tril = {};  // the Cholesky factor of the covariance: its lower triangle is read,
                           // and its diagonal is positive
};

/// The normal distribution of vectors with mean `loc` […,d].
/// throws: one of these:
///   - ValueError if a matrix is not positive definite; the message names the matrix and its first
///     leading minor that is not positive
///   - DTypeError unless loc and the matrix are both f32 or both f64
class LATHE_API MultivariateNormal final : public Distribution {
 public:
  MultivariateNormal(const Tensor& loc, const CovarianceOptions& covariance);
  Tensor log_prob(const Tensor& value) const override;
  Tensor entropy() const override;
  Tensor mean() const override { return loc; }
  Tensor variance() const override;
  Tensor covariance_matrix() const;

  Tensor loc, scale_tril;

 private:
  MultivariateNormal(const Tensor& loc, const Tensor& scale_tril, const Shape& batch);
  Tensor draw(const Shape& sample_shape, Generator* generator) const override;
};

}  // namespace lathe::distributions
