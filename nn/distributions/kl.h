// The divergence of two distributions.
#pragma once

#include "lathe/nn/distributions/distribution.h"

namespace lathe::distributions {

/// KL(p || q), the mean of log p(x) - log q(x) over x ~ p; +inf where p has mass and q has none.
/// p and q are of one class: Normal, LogNormal, Uniform, Exponential, Gamma, Beta, Bernoulli,
/// Categorical, Dirichlet, MultivariateNormal, or Independent over two of these.
///   →  […batch]
/// throws: ValueError for another pair; ShapeError.
LATHE_API Tensor kl_divergence(const Distribution& p, const Distribution& q);

}  // namespace lathe::distributions
