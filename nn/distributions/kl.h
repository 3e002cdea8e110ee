// The divergence of two distributions.
#pragma once

#include "lathe/nn/distributions/distribution.h"

namespace lathe::distributions {

/// KL(p || q), the mean of log p(x) - log q(x) over x ~ p; +inf where p has mass and q has none.
/// p and q must be of the same class: Normal, LogNormal, Uniform, Exponential, Gamma, Beta,
/// Bernoulli, Categorical, Dirichlet or MultivariateNormal. Or both are Independent, and their
/// bases are of the same class among these.
///   →  […batch]
/// throws: ValueError for any other pair; ShapeError.
LATHE_API Tensor kl_divergence(const Distribution& p, const Distribution& q);

}  // namespace lathe::distributions
