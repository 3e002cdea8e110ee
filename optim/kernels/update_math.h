// The update rules, one element at a time: the same text for the CPU loops (update_cpu.cpp) and the
// CUDA kernels. C is the type of the arithmetic: float (also for half parameters) or double.
#pragma once

#include <cmath>
#include <cstdint>

#include "lathe/core/config.h"
#include "lathe/optim/adam.h"
#include "lathe/optim/rmsprop.h"
#include "lathe/optim/sgd.h"
#include "lathe/optim/update.h"

namespace lathe::optim {

/// Gradients on their way into a rule: divided by the loss scale, then clipped. By default x · 1.
template <class C>
struct GradFactor {
  C unscale, clip;
  LATHE_HD static GradFactor of(const double* factors) {
    if (factors == nullptr) return {C(1), C(1)};
    return {C(factors[0]), C(factors[1])};
  }
  LATHE_HD C operator()(C g) const { return g * unscale * clip; }
};

/// The value of a parameter of type T that has a master. It is the master, unless the parameter
/// holds another value than the rounded master (loaded weights, a first step); then it is the
/// parameter.
template <class T, class C>
LATHE_HD C master_value(T p, C master) {
  return C(T(master)) == C(p) ? master : C(p);
}

/// Stochastic gradient descent with momentum b:
///   g ← g + weight_decay · p
///   b ← g  (first step),   b ← momentum · b + (1 - dampening) · g  (later)
///   p ← p - lr · (nesterov ? g + momentum · b : b),   without momentum  p ← p - lr · g
/// ref: Sutskever et al. 2013, with lr outside the buffer as in PyTorch.
template <class C>
struct SgdMath {
  C lr, momentum, gradient_share, weight_decay;  // gradient_share = 1 - dampening
  bool nesterov;

  LATHE_HD static SgdMath of(const SGDOptions& o) {
    return {.lr = C(o.lr),
            .momentum = C(o.momentum),
            .gradient_share = C(1 - o.dampening),
            .weight_decay = C(o.weight_decay),
            .nesterov = o.nesterov};
  }

  LATHE_HD C decayed(C p, C g) const { return weight_decay != C(0) ? g + weight_decay * p : g; }

  LATHE_HD C plain(C p, C g) const { return p - lr * decayed(p, g); }

  LATHE_HD C first(C p, C g, C& b) const {
    g = decayed(p, g);
    b = g;
    return p - lr * (nesterov ? g + momentum * b : b);
  }

  LATHE_HD C later(C p, C g, C& b) const {
    g = decayed(p, g);
    b = momentum * b + gradient_share * g;
    return p - lr * (nesterov ? g + momentum * b : b);
  }
};

/// Adam (Kingma and Ba 2015, arXiv:1412.6980); AMSGrad (Reddi et al. 2018); AdamW (Loshchilov and
/// Hutter 2019, arXiv:1711.05101), whose decay acts on the parameter and not on the gradient. In
/// step t = 1, 2, …:
///   p ← p · (1 - lr · weight_decay)   (AdamW),   g ← g + weight_decay · p   (Adam)
///   m ← beta1 · m + (1 - beta1) · g
///   v ← beta2 · v + (1 - beta2) · g²
///   w ← max(w, v)   (AMSGrad)
///   p ← p - lr / (1 - beta1^t) · m / ( sqrt(v or w) / sqrt(1 - beta2^t) + eps )
template <class C>
struct AdamMath {
  C beta1, one_minus_beta1, beta2, one_minus_beta2, eps;
  C kept;          // AdamW: 1 - lr · weight_decay, else 1
  C weight_decay;  // Adam, else 0
  C step_size;     // lr / (1 - beta1^t)
  C root;          // sqrt(1 - beta2^t)

  /// What depends on t is computed in double and rounded once.
  LATHE_HD static AdamMath at_step(int64_t t, const AdamOptions& o, bool decoupled) {
    const double steps = static_cast<double>(t), beta1 = o.betas.first, beta2 = o.betas.second;
    return {.beta1 = C(beta1),
            .one_minus_beta1 = C(1 - beta1),
            .beta2 = C(beta2),
            .one_minus_beta2 = C(1 - beta2),
            .eps = C(o.eps),
            .kept = decoupled ? C(1 - o.lr * o.weight_decay) : C(1),
            .weight_decay = decoupled ? C(0) : C(o.weight_decay),
            .step_size = C(o.lr / (1 - std::pow(beta1, steps))),
            .root = C(std::sqrt(1 - std::pow(beta2, steps)))};
  }

  LATHE_HD C moments(C& p, C g, C& m, C& v) const {  // → the new v
    p *= kept;
    g = weight_decay != C(0) ? g + weight_decay * p : g;
    m = beta1 * m + one_minus_beta1 * g;
    v = beta2 * v + one_minus_beta2 * g * g;
    return v;
  }
  LATHE_HD C stepped(C p, C m, C v) const {
    return p - step_size * m / (std::sqrt(v) / root + eps);
  }

  LATHE_HD C adam(C p, C g, C& m, C& v) const {
    const C second = moments(p, g, m, v);
    return stepped(p, m, second);
  }
  LATHE_HD C amsgrad(C p, C g, C& m, C& v, C& w) const {
    const C second = moments(p, g, m, v);
    w = w < second || second != second ? second : w;  // a NaN stays visible
    return stepped(p, m, w);
  }
};

/// RMSprop (Hinton, lecture 6e of "Neural networks for machine learning", 2012):
///   g ← g + weight_decay · p
///   v ← alpha · v + (1 - alpha) · g²
///   d ← sqrt(v) + eps,   centred (Graves 2013):  a ← alpha · a + (1 - alpha) · g
///                                                d ← sqrt(v - a²) + eps
///   p ← p - lr · g / d,   with momentum:  b ← momentum · b + g / d,   p ← p - lr · b
template <class C>
struct RmspropMath {
  C lr, alpha, one_minus_alpha, eps, weight_decay, momentum;

  LATHE_HD static RmspropMath of(const RMSpropOptions& o) {
    return {.lr = C(o.lr),
            .alpha = C(o.alpha),
            .one_minus_alpha = C(1 - o.alpha),
            .eps = C(o.eps),
            .weight_decay = C(o.weight_decay),
            .momentum = C(o.momentum)};
  }

  LATHE_HD C decayed(C p, C g) const { return weight_decay != C(0) ? g + weight_decay * p : g; }
  LATHE_HD C mean_square(C g, C& v) const { return v = alpha * v + one_minus_alpha * g * g; }
  LATHE_HD C divisor(C v) const { return std::sqrt(v) + eps; }
  LATHE_HD C centred_divisor(C g, C v, C& a) const {
    a = alpha * a + one_minus_alpha * g;
    return std::sqrt(v - a * a) + eps;
  }
  LATHE_HD C stepped(C p, C g, C d) const { return p - lr * g / d; }
  LATHE_HD C stepped(C p, C g, C d, C& b) const {
    b = momentum * b + g / d;
    return p - lr * b;
  }
};

/// The exponential moving average a of a value x, in its update n = 1, 2, …; a starts at x's first
/// value:
///   a ← decay · a + (1 - decay) · x,   with warm-up  decay ← min(decay, (1 + n) / (10 + n))
/// In stochastic weight averaging (Izmailov et al. 2018) decay is (n - 1) / n: a is the mean.
template <class C>
struct EmaMath {
  C kept, taken;

  LATHE_HD static EmaMath at_update(int64_t n, const EmaNumbers& o) {
    const double updates = static_cast<double>(n);
    const double early = (1 + updates) / (10 + updates);
    double decay = o.warm_up && early < o.decay ? early : o.decay;
    if (o.swa) decay = (updates - 1) / updates;
    return {.kept = C(decay), .taken = C(1 - decay)};
  }
  LATHE_HD C average(C a, C x) const { return kept * a + taken * x; }
};

}  // namespace lathe::optim
