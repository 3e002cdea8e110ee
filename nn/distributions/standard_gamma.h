// Samples of the gamma distribution with rate 1, of which Gamma, Beta and Dirichlet make theirs.
#pragma once

#include "lathe/core/random/generator.h"
#include "lathe/core/tensor.h"

namespace lathe::distributions {

/// log x of a sample x of Gamma(alpha, 1) for each element, because for a small alpha x itself is
/// below the numbers of any dtype. Element i draws from counters of its own, so samples depend on
/// neither threads nor device. Computed on the CPU.
///   alpha  f32, f64   →  f64
/// grad: alpha, by which its quantile moves. A second derivative is a ValueError.
/// ref: Marsaglia and Tsang 2000, doi:10.1145/358407.358414; Figurnov et al. 2018
/// (arXiv:1805.08498) for the gradient.
Tensor log_standard_gamma(const Tensor& alpha, Generator* generator);

}  // namespace lathe::distributions
