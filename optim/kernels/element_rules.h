// The update rules of the RuleOptimizers, one element at a time: the same text for the CPU loops
// (update_cpu.cpp) and the CUDA kernels. C is the type of the arithmetic: float (also for half
// parameters) or double. A rule has three parts:
//   kBuffers      how many buffers of the parameter's shape it keeps
//   at(t, o)      the rule of step t = 1, 2, … with these options; what depends on t is computed in
//                 double and rounded once
//   (p, g, b)     the new p from p, the gradient g and the buffers b, which change
#pragma once

#include <cmath>
#include <cstdint>

#include "lathe/core/config.h"
#include "lathe/optim/adadelta.h"
#include "lathe/optim/adagrad.h"
#include "lathe/optim/adamax.h"
#include "lathe/optim/lion.h"
#include "lathe/optim/lookahead.h"
#include "lathe/optim/muon.h"
#include "lathe/optim/nadam.h"
#include "lathe/optim/radam.h"

namespace lathe::optim {

/// Weight decay: p ← p · (1 - lr · weight_decay) if it is decoupled, else g ← g + weight_decay · p.
template <class C>
struct Decay {
  C kept = C(1), added = C(0);

  LATHE_HD static Decay of(double lr, double weight_decay, bool decoupled) {
    if (decoupled) return {.kept = C(1 - lr * weight_decay), .added = C(0)};
    return {.kept = C(1), .added = C(weight_decay)};
  }
  LATHE_HD void act(C& p, C& g) const {
    p *= kept;
    if (added != C(0)) g += added * p;
  }
};

/// A running mean: m ← beta · m + (1 - beta) · x.
template <class C>
struct Mean {
  C kept, taken;

  LATHE_HD static Mean of(double beta) { return {.kept = C(beta), .taken = C(1 - beta)}; }
  LATHE_HD C operator()(C m, C x) const { return kept * m + taken * x; }
};

/// Adagrad (Duchi et al. 2011); s begins with initial_accumulator_value:
///   g ← g + weight_decay · p
///   s ← s + g²
///   p ← p - lr / (1 + (t - 1) · lr_decay) · g / (sqrt(s) + eps)
template <class C>
struct AdagradRule {
  static constexpr int kBuffers = 1;
  Decay<C> decay;
  C before, rate, eps;  // `before` is added to s: its first value in step 1, else 0

  LATHE_HD static AdagradRule at(int64_t t, const AdagradOptions& o) {
    return {.decay = Decay<C>::of(o.lr, o.weight_decay, false),
            .before = t == 1 ? C(o.initial_accumulator_value) : C(0),
            .rate = C(o.lr / (1 + static_cast<double>(t - 1) * o.lr_decay)),
            .eps = C(o.eps)};
  }
  LATHE_HD C operator()(C p, C g, C* b) const {
    decay.act(p, g);
    b[0] = b[0] + before + g * g;
    return p - rate * g / (std::sqrt(b[0]) + eps);
  }
};

/// Adadelta (Zeiler 2012, arXiv:1212.5701):
///   g ← g + weight_decay · p
///   v ← rho · v + (1 - rho) · g²
///   d ← sqrt(u + eps) / sqrt(v + eps) · g
///   u ← rho · u + (1 - rho) · d²
///   p ← p - lr · d
template <class C>
struct AdadeltaRule {
  static constexpr int kBuffers = 2;
  Decay<C> decay;
  Mean<C> mean;
  C lr, eps;

  LATHE_HD static AdadeltaRule at(int64_t, const AdadeltaOptions& o) {
    return {.decay = Decay<C>::of(o.lr, o.weight_decay, false),
            .mean = Mean<C>::of(o.rho),
            .lr = C(o.lr),
            .eps = C(o.eps)};
  }
  LATHE_HD C operator()(C p, C g, C* b) const {
    decay.act(p, g);
    b[0] = mean(b[0], g * g);
    const C d = std::sqrt(b[1] + eps) / std::sqrt(b[0] + eps) * g;
    b[1] = mean(b[1], d * d);
    return p - lr * d;
  }
};

/// Adamax (Kingma and Ba 2015, arXiv:1412.6980, algorithm 2):
///   g ← g + weight_decay · p
///   m ← beta1 · m + (1 - beta1) · g
///   u ← max(beta2 · u, |g| + eps)
///   p ← p - lr / (1 - beta1^t) · m / u
template <class C>
struct AdamaxRule {
  static constexpr int kBuffers = 2;
  Decay<C> decay;
  Mean<C> mean;
  C beta2, rate, eps;

  LATHE_HD static AdamaxRule at(int64_t t, const AdamaxOptions& o) {
    return {.decay = Decay<C>::of(o.lr, o.weight_decay, false),
            .mean = Mean<C>::of(o.betas.first),
            .beta2 = C(o.betas.second),
            .rate = C(o.lr / (1 - std::pow(o.betas.first, static_cast<double>(t)))),
            .eps = C(o.eps)};
  }
  LATHE_HD C operator()(C p, C g, C* b) const {
    decay.act(p, g);
    b[0] = mean(b[0], g);
    const C old = beta2 * b[1], now = std::fabs(g) + eps;
    b[1] = old < now || now != now ? now : old;  // a NaN stays visible
    return p - rate * b[0] / b[1];
  }
};

/// NAdam (Dozat 2016), with m and v as in Adam:
///   p ← p · (1 - lr · weight_decay)   (decoupled),   g ← g + weight_decay · p   (else)
///   μ_t = beta1 · (1 - 0.96^(t · momentum_decay) / 2),   M_t = μ_1 · … · μ_t
///   p ← p - lr · ( (1 - μ_t) / (1 - M_t) · g + μ_{t+1} / (1 - M_{t+1}) · m )
///               / ( sqrt( v / (1 - beta2^t) ) + eps )
template <class C>
struct NAdamRule {
  static constexpr int kBuffers = 2;
  Decay<C> decay;
  Mean<C> mean, square;
  C by_gradient, by_mean, root, eps;  // root = sqrt(1 - beta2^t)

  LATHE_HD static NAdamRule at(int64_t t, const NAdamOptions& o) {
    const double steps = static_cast<double>(t), beta1 = o.betas.first;
    // A product below half a unit in the last place of 1 does not count, nor do its many factors.
    double product = std::pow(beta1, steps) < 0x1p-54 ? 0 : 1;
    const double ratio = std::pow(0.96, o.momentum_decay);
    double power = ratio;  // 0.96^(s · momentum_decay)
    for (int64_t s = 1; s <= t && product > 0x1p-54; ++s, power *= ratio)
      product *= beta1 * (1 - 0.5 * power);
    const auto mu = [&](double s) {
      return beta1 * (1 - 0.5 * std::pow(0.96, s * o.momentum_decay));
    };
    return {.decay = Decay<C>::of(o.lr, o.weight_decay, o.decoupled_weight_decay),
            .mean = Mean<C>::of(beta1),
            .square = Mean<C>::of(o.betas.second),
            .by_gradient = C(o.lr * (1 - mu(steps)) / (1 - product)),
            .by_mean = C(o.lr * mu(steps + 1) / (1 - product * mu(steps + 1))),
            .root = C(std::sqrt(1 - std::pow(o.betas.second, steps))),
            .eps = C(o.eps)};
  }
  LATHE_HD C operator()(C p, C g, C* b) const {
    decay.act(p, g);
    b[0] = mean(b[0], g);
    b[1] = square(b[1], g * g);
    return p - (by_gradient * g + by_mean * b[0]) / (std::sqrt(b[1]) / root + eps);
  }
};

/// RAdam (Liu et al. 2020, arXiv:1908.03265), with m and v as in Adam:
///   p ← p · (1 - lr · weight_decay)   (decoupled),   g ← g + weight_decay · p   (else)
///   ρ∞ = 2 / (1 - beta2) - 1,   ρ = ρ∞ - 2t · beta2^t / (1 - beta2^t)
///   r = sqrt( (ρ - 4)(ρ - 2)ρ∞ / ( (ρ∞ - 4)(ρ∞ - 2)ρ ) )
///   p ← p - lr / (1 - beta1^t) · m · d,   d = r · sqrt(1 - beta2^t) / ( sqrt(v) + eps ) if ρ > 5,
///                                         else 1
template <class C>
struct RAdamRule {
  static constexpr int kBuffers = 2;
  Decay<C> decay;
  Mean<C> mean, square;
  C rate, root, eps;  // the divisor is root · sqrt(s) + eps; 1 while rho is small

  LATHE_HD static RAdamRule at(int64_t t, const RAdamOptions& o) {
    const double steps = static_cast<double>(t);
    const double power = std::pow(o.betas.second, steps);
    const double most = 2 / (1 - o.betas.second) - 1;
    const double rho = most - 2 * steps * power / (1 - power);
    const bool divides = rho > 5;
    double rate = 1;
    if (divides) {
      rate =
          std::sqrt((rho - 4) * (rho - 2) * most / ((most - 4) * (most - 2) * rho) * (1 - power));
    }
    rate *= o.lr / (1 - std::pow(o.betas.first, steps));
    return {.decay = Decay<C>::of(o.lr, o.weight_decay, o.decoupled_weight_decay),
            .mean = Mean<C>::of(o.betas.first),
            .square = Mean<C>::of(o.betas.second),
            .rate = C(rate),
            .root = divides ? C(1) : C(0),
            .eps = divides ? C(o.eps) : C(1)};
  }
  LATHE_HD C operator()(C p, C g, C* b) const {
    // Decay::act() with p decayed last: ptxas spills otherwise.
    if (decay.added != C(0)) g += decay.added * (p * decay.kept);
    b[0] = mean(b[0], g);
    b[1] = square(b[1], g * g);
    const C step = rate * b[0] / (root * std::sqrt(b[1]) + eps);
    return p * decay.kept - step;
  }
};

/// Lion (Chen et al. 2023, arXiv:2302.06675):
///   p ← p · (1 - lr · weight_decay)
///   p ← p - lr · sign(beta1 · m + (1 - beta1) · g)
///   m ← beta2 · m + (1 - beta2) · g
template <class C>
struct LionRule {
  static constexpr int kBuffers = 1;
  Decay<C> decay;
  Mean<C> now, next;
  C lr;

  LATHE_HD static LionRule at(int64_t, const LionOptions& o) {
    return {.decay = Decay<C>::of(o.lr, o.weight_decay, true),
            .now = Mean<C>::of(o.betas.first),
            .next = Mean<C>::of(o.betas.second),
            .lr = C(o.lr)};
  }
  LATHE_HD C operator()(C p, C g, C* b) const {
    decay.act(p, g);
    const C direction = now(b[0], g);
    b[0] = next(b[0], g);
    const C sign = direction > C(0) ? C(1) : direction < C(0) ? C(-1) : direction;  // NaN stays
    return p - lr * sign;
  }
};

/// Muon (Jordan et al. 2024). u begins as
///   m' = momentum · m + (1 - momentum) · g,   nesterov:  momentum · m' + (1 - momentum) · g
/// Between this and MuonRule, newton_schulz() changes u; m changes only there.
template <class C>
struct MuonDirection {
  static constexpr int kBuffers = 2;
  Mean<C> mean;
  bool nesterov;

  LATHE_HD static MuonDirection at(int64_t, const MuonOptions& o) {
    return {.mean = Mean<C>::of(o.momentum), .nesterov = o.nesterov};
  }
  LATHE_HD C operator()(C p, C g, C* b) const {
    const C m = mean(b[0], g);
    b[1] = nesterov ? mean(m, g) : m;
    return p;
  }
};

/// The slow weights s of Lookahead (Zhang et al. 2019, arXiv:1907.08610), after every k-th step:
///   s ← s + alpha · (p - s),   p ← s
template <class C>
struct LookaheadRule {
  static constexpr int kBuffers = 1;
  C alpha;
  bool due;  // whether this step is a k-th one

  LATHE_HD static LookaheadRule at(int64_t t, const LookaheadOptions& o) {
    return {.alpha = C(o.alpha), .due = t % o.k == 0};
  }
  LATHE_HD C operator()(C p, C, C* b) const { return due ? b[0] += alpha * (p - b[0]) : p; }
};

///   m ← momentum · m + (1 - momentum) · g
///   p ← p · (1 - lr · weight_decay) - lr · u
template <class C>
struct MuonRule {
  static constexpr int kBuffers = 2;
  Decay<C> decay;
  Mean<C> mean;
  C lr;

  LATHE_HD static MuonRule at(int64_t, const MuonOptions& o) {
    return {.decay = Decay<C>::of(o.lr, o.weight_decay, true),
            .mean = Mean<C>::of(o.momentum),
            .lr = C(o.lr)};
  }
  LATHE_HD C operator()(C p, C g, C* b) const {
    decay.act(p, g);
    b[0] = mean(b[0], g);
    return p - lr * b[1];
  }
};

}  // namespace lathe::optim
