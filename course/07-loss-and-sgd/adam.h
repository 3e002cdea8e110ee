// Adam divides each gradient by the size that it usually has. For each parameter p with gradient g,
// in step t = 1, 2, …
//
//   m = beta1 * m + (1 - beta1) * g          a running mean of the gradient
//   v = beta2 * v + (1 - beta2) * g * g      and one of its square
//   p = p - lr * m' / (sqrt(v') + eps)       m' = m / (1 - beta1^t), v' = v / (1 - beta2^t)
//
// m and v are 0 at first, so they begin too small: after a step m is (1 - beta1) * g. m' and v' put
// that right.
#pragma once

#include "tiny/tape.h"

namespace course {

struct AdamOptions {
  double lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-8;  // keeps 0 / 0 away
};

class Adam {
 public:
  Adam(std::vector<tiny::Tensor> parameters, const AdamOptions& options)
      : parameters_(std::move(parameters)), means_(parameters_.size()), opt_(options) {}

  /// A parameter without a gradient is left alone, and so are its means and its t.
  void step() {
    const tiny::NoGrad off;
    for (size_t i = 0; i < parameters_.size(); ++i)
      if (const tiny::Tensor g = tiny::grad(parameters_[i]); g.defined())
        update(parameters_[i], g, means_[i]);
  }

 private:
  struct Means {
    tiny::Tensor m, v;  // undefined before the parameter's first step
    int64_t t = 0;      // steps so far
  };

  void update(tiny::Tensor& p, const tiny::Tensor& g, Means& means) const {
    if (means.t++ == 0) {
      means.m = tiny::Tensor(p.shape());
      means.v = tiny::Tensor(p.shape());
    }
    const double rest1 = 1 - std::pow(opt_.beta1, means.t),
                 rest2 = 1 - std::pow(opt_.beta2, means.t);
    double *value = tiny::writable("Adam::step", p), *m = means.m.data(), *v = means.v.data();
    for (int64_t i = 0; i < p.numel(); ++i) {
      const double gradient = g.data()[i];
      m[i] = opt_.beta1 * m[i] + (1 - opt_.beta1) * gradient;
      v[i] = opt_.beta2 * v[i] + (1 - opt_.beta2) * gradient * gradient;
      value[i] -= opt_.lr * (m[i] / rest1) / (std::sqrt(v[i] / rest2) + opt_.eps);
    }
  }

  std::vector<tiny::Tensor> parameters_;
  std::vector<Means> means_;
  AdamOptions opt_;
};

}  // namespace course
