// The arithmetic of ops/losses/cross_entropy.h per row and per score, shared by the CPU loops and
// the CUDA kernels.
#pragma once

#include <cstdint>

#include "lathe/core/config.h"

namespace lathe::math {

/// A one-hot target with label smoothing e: its class counts one_hot = 1 - e, and every class
/// spread = e / C.
template <class A>
struct Smoothing {
  A one_hot, spread;

  static Smoothing of(double e, int64_t classes) {
    return {static_cast<A>(1.0 - e),
            classes == 0 ? A(0) : static_cast<A>(e / static_cast<double>(classes))};
  }

  /// weight: the target's class weight; nll = -logp of the target; even = sum of w_c * -logp_c.
  LATHE_HD A loss(A weight, A nll, A even) const {
    const A own = one_hot * weight * nll;
    return spread == A(0) ? own : own + spread * even;
  }
  /// The factor of softmax(x) in dx. g is the gradient of the row's loss, weight the target's class
  /// weight, weight_sum the sum of all class weights.
  LATHE_HD A softmax_factor(A g, A weight, A weight_sum) const {
    return g * (one_hot * weight + spread * weight_sum);
  }
  /// What is subtracted from dx: class_part for every class, of weight w; target_part for the
  /// target.
  LATHE_HD A class_part(A g, A w) const { return g * spread * w; }
  LATHE_HD A target_part(A g, A weight) const { return g * (one_hot * weight); }
};

}  // namespace lathe::math
