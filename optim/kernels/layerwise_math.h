// The layer-wise update rules: the same text for the CPU loops (update_layerwise_cpu.cpp) and the
// CUDA kernels. A step of theirs depends on norms of the whole parameter tensor (the "layer"), so
// it takes two passes over the elements:
//   measure(p, g, b)      the vector u whose norm counts beside that of p; may change the buffers b
//   rate(sums, number, n) from both sums of squares, what step() must know of the tensor, which has
//                         n elements
//   step(p, g, b, rate)   the new p
// C is the type of the arithmetic: float (also for half parameters) or double; sums and rates are
// double.
#pragma once

#include <cmath>
#include <cstdint>

#include "lathe/core/config.h"
#include "lathe/optim/adafactor.h"
#include "lathe/optim/lamb.h"
#include "lathe/optim/lars.h"
#include "lathe/optim/novograd.h"

namespace lathe::optim {

/// Running sums of squares of p and of u.
struct SquareSums {
  double p = 0, u = 0;

  template <class C>
  LATHE_HD void add(C a, C b) {
    p += static_cast<double>(a) * static_cast<double>(a);
    u += static_cast<double>(b) * static_cast<double>(b);
  }
  LATHE_HD void join(const SquareSums& part) {
    p += part.p;
    u += part.u;
  }
};

/// LARS, layer-wise adaptive rate scaling (You, Gitman and Ginsburg 2017, arXiv:1708.03888,
/// algorithm 1), with the momentum buffer b, 0 at first:
///   λ ← trust_coefficient · ‖p‖ / (‖g‖ + weight_decay · ‖p‖)
///   b ← momentum · b + lr · λ · (g + weight_decay · p)
///   p ← p - b
/// λ = 1 where a norm is 0 or the group does not adapt. The decay takes part in λ, and lr stands
/// inside the buffer (SGD here has it outside).
template <class C>
struct LarsMath {
  static constexpr int kBuffers = 1;               // of the parameter's shape
  static constexpr int kNumbers = 0;               // buffers behind them: one number per tensor
  static constexpr bool kMeasuresBuffers = false;  // measure() reads and writes b
  static constexpr bool kStepsByGradient = true;   // step() reads g and writes b

  double lr, trust_coefficient, double_decay;
  C momentum, weight_decay;
  bool adapt;

  LATHE_HD static LarsMath at(const LARSOptions& o, int64_t) {
    return {.lr = o.lr,
            .trust_coefficient = o.trust_coefficient,
            .double_decay = o.weight_decay,
            .momentum = C(o.momentum),
            .weight_decay = C(o.weight_decay),
            .adapt = o.adapt};
  }

  LATHE_HD C measure(C, C g, C*) const { return g; }
  LATHE_HD double rate(const SquareSums& sums, C*, int64_t) const {
    if (!adapt || !(sums.p > 0 && sums.u > 0)) return lr;
    const double p = std::sqrt(sums.p), g = std::sqrt(sums.u);
    return lr * (trust_coefficient * p / (g + double_decay * p));
  }
  LATHE_HD C step(C p, C g, C* b, C rate) const {
    b[0] = momentum * b[0] + rate * (g + weight_decay * p);
    return p - b[0];
  }
};

/// LAMB (You et al. 2019, arXiv:1904.00962, algorithm 2 with φ(x) = x). In step t = 1, 2, …:
///   m ← beta1 · m + (1 - beta1) · g               v ← beta2 · v + (1 - beta2) · g²
///   u ← m / (1 - beta1^t) / ( sqrt(v) / sqrt(1 - beta2^t) + eps ) + weight_decay · p
///   p ← p - lr · ‖p‖ / ‖u‖ · u
/// The ratio of the norms is 1 where one of them is 0 or the group does not adapt. Without
/// bias_correction both divisors are 1.
template <class C>
struct LambMath {
  static constexpr int kBuffers = 2;
  static constexpr int kNumbers = 0;
  static constexpr bool kMeasuresBuffers = true;
  static constexpr bool kStepsByGradient = false;

  double lr;
  C beta1, one_minus_beta1, beta2, one_minus_beta2, eps, weight_decay;
  C mean_divisor;  // 1 - beta1^t
  C root;          // sqrt(1 - beta2^t)
  bool adapt;

  /// What depends on t is computed in double and rounded once.
  LATHE_HD static LambMath at(const LAMBOptions& o, int64_t t) {
    const double steps = static_cast<double>(t);
    return {.lr = o.lr,
            .beta1 = C(o.betas.first),
            .one_minus_beta1 = C(1 - o.betas.first),
            .beta2 = C(o.betas.second),
            .one_minus_beta2 = C(1 - o.betas.second),
            .eps = C(o.eps),
            .weight_decay = C(o.weight_decay),
            .mean_divisor = o.bias_correction ? C(1 - std::pow(o.betas.first, steps)) : C(1),
            .root = o.bias_correction ? C(std::sqrt(1 - std::pow(o.betas.second, steps))) : C(1),
            .adapt = o.adapt};
  }

  LATHE_HD C direction(C p, const C* b) const {
    return b[0] / mean_divisor / (std::sqrt(b[1]) / root + eps) + weight_decay * p;
  }
  LATHE_HD C measure(C p, C g, C* b) const {
    b[0] = beta1 * b[0] + one_minus_beta1 * g;
    b[1] = beta2 * b[1] + one_minus_beta2 * g * g;
    return direction(p, b);
  }
  LATHE_HD double rate(const SquareSums& sums, C*, int64_t) const {
    if (!adapt || !(sums.p > 0 && sums.u > 0)) return lr;
    return lr * (std::sqrt(sums.p) / std::sqrt(sums.u));
  }
  LATHE_HD C step(C p, C, C* b, C rate) const { return p - rate * direction(p, b); }
};

/// NovoGrad (Ginsburg et al. 2019, arXiv:1905.11286, algorithm 1). The second moment v is one
/// number per tensor:
///   v ← ‖g‖²  (first step),   v ← beta2 · v + (1 - beta2) · ‖g‖²  (later)
///   m ← beta1 · m + share · ( g / (sqrt(v) + eps) + weight_decay · p ),   m is 0 at first
///   p ← p - lr · m
/// share is 1, with grad_averaging 1 - beta1. A divisor of 0 (all gradients so far were 0, and eps
/// is) counts as 1.
template <class C>
struct NovogradMath {
  static constexpr int kBuffers = 1;
  static constexpr int kNumbers = 1;
  static constexpr bool kMeasuresBuffers = false;
  static constexpr bool kStepsByGradient = true;

  double beta2, eps;
  C lr, beta1, share, weight_decay;
  bool first;

  LATHE_HD static NovogradMath at(const NovoGradOptions& o, int64_t t) {
    return {.beta2 = o.betas.second,
            .eps = o.eps,
            .lr = C(o.lr),
            .beta1 = C(o.betas.first),
            .share = o.grad_averaging ? C(1 - o.betas.first) : C(1),
            .weight_decay = C(o.weight_decay),
            .first = t == 1};
  }

  LATHE_HD C measure(C, C g, C*) const { return g; }
  /// → sqrt(v) + eps; raises v.
  LATHE_HD double rate(const SquareSums& sums, C* v, int64_t) const {
    *v = C(first ? sums.u : beta2 * static_cast<double>(*v) + (1 - beta2) * sums.u);
    const double divisor = std::sqrt(static_cast<double>(*v)) + eps;
    return divisor == 0 ? 1 : divisor;
  }
  LATHE_HD C step(C p, C g, C* b, C divisor) const {
    b[0] = beta1 * b[0] + share * (g / divisor + weight_decay * p);
    return p - lr * b[0];
  }
};

/// Adafactor (Shazeer and Stern 2018, arXiv:1804.04235, algorithms 4 to 6), with eps1 as in
/// PyTorch. In step t = 1, 2, …, with rms(x) = ‖x‖ / sqrt(n):
///   v ← v + t^beta2_decay · (g² - v),   of matrices the estimate by rows and columns (adafactor.h)
///   u ← g / sqrt(max(v, eps1²))
///   p ← p · (1 - lr · weight_decay)
///         - max(eps2, rms(p)) · min(lr, 1 / sqrt(t)) / max(1, rms(u) / d) · u
template <class C>
struct AdafactorMath {
  static constexpr int kBuffers = 1;
  static constexpr int kNumbers = 0;
  static constexpr bool kMeasuresBuffers = true;
  static constexpr bool kStepsByGradient = true;

  double rate_of_rms, eps2, d;
  C share, least, kept;  // of g² in v; least v; of p
  bool factored;         // v is the estimate already

  LATHE_HD static AdafactorMath at(const AdafactorNumbers& o, int64_t t) {
    const double steps = static_cast<double>(t), longest = 1 / std::sqrt(steps);
    const double rate = o.lr < longest ? o.lr : longest;
    return {.rate_of_rms = o.maximize ? -rate : rate,
            .eps2 = o.eps2,
            .d = o.d,
            .share = C(std::pow(steps, o.beta2_decay)),
            .least = C(o.eps1 * o.eps1),
            .kept = C(1 - o.lr * o.weight_decay),
            .factored = o.factored};
  }

  LATHE_HD C direction(C g, C v) const { return g / std::sqrt(v < least ? least : v); }
  LATHE_HD C measure(C, C g, C* b) const {
    if (!factored) b[0] = b[0] + share * (g * g - b[0]);
    return direction(g, b[0]);
  }
  LATHE_HD double rate(const SquareSums& sums, C*, int64_t n) const {
    const double share_of_one = 1 / static_cast<double>(n);
    const double p = std::sqrt(sums.p * share_of_one), u = std::sqrt(sums.u * share_of_one);
    const double rate = (p > eps2 ? p : eps2) * rate_of_rms;
    return u > d ? rate * (d / u) : rate;
  }
  LATHE_HD C step(C p, C g, const C* b, C rate) const {
    return kept * p - rate * direction(g, b[0]);
  }
};

}  // namespace lathe::optim
