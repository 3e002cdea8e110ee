// Distributions of a vector.
#pragma once

#include "lathe/nn/distributions/distribution.h"

namespace lathe::distributions {

/// Probabilities of K classes: a value is […batch,K], at least 0, and sums to 1. concentration
/// […batch,K] is positive. Samples are made of those of Gamma.
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

/// Exactly one of them is set, […,d,d].
struct CovarianceOptions {
  Tensor covariance_matrix = {};  // positive definite
  Tensor precision_matrix = {};   // its inverse
  Tensor scale_tril = {};  // the Cholesky factor of the covariance: its lower triangle is read,
                           // and its diagonal is positive
};

/// The normal distribution of vectors with mean `loc` […,d].
/// throws: ValueError if a matrix is not positive definite, with the matrix and its leading minor.
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
