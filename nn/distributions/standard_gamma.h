// Samples of the gamma distribution with rate 1, of which Gamma, Beta and Dirichlet make theirs.
#pragma once

#include "lathe/core/random/generator.h"
#include "lathe/core/tensor.h"

namespace lathe::distributions {

/// A sample of Gamma(alpha, 1) for each element, at least the dtype's least normal number. Element
/// i draws from counters of its own, so samples depend on neither threads nor device. Computed in
/// f64 on the CPU.
/// dtypes: f32, f64.
/// grad: alpha, by which its quantile moves. A second derivative is a ValueError.
/// ref: Marsaglia and Tsang 2000, doi:10.1145/358407.358414; Figurnov et al. 2018
/// (arXiv:1805.08498) for the gradient.
Tensor standard_gamma(const Tensor& alpha, Generator* generator);

/// The gradient for a sample x of Gamma(alpha, 1): -(dF/dalpha) / density.
double standard_gamma_grad(double alpha, double x);

}  // namespace lathe::distributions
