// Stochastic gradient descent with momentum and weight decay. For each parameter p with gradient g:
//
//   g = g + weight_decay * p      the gradient of weight_decay/2 * p², which pulls p towards 0
//   v = momentum * v + g          v is 0 at first; momentum is the weight of the old v
//   p = p - lr * v
//
// v is a weighted sum of the gradients so far: with momentum 0.9 the last ten count most. What they
// agree on adds up, and what differs from batch to batch cancels.
#pragma once

#include "tape.h"

namespace tiny {

struct SgdOptions {
  double lr = 0.1;
  double momentum = 0;
  double weight_decay = 0;
};

class Sgd {
 public:
  /// throws: ValueError for a negative option; StateError for a tensor that requires no grad.
  Sgd(std::vector<Tensor> parameters, const SgdOptions& options)
      : parameters_(std::move(parameters)), velocity_(parameters_.size()), opt_(options) {
    for (const double value : {opt_.lr, opt_.momentum, opt_.weight_decay})
      check<ValueError>(value >= 0, "Sgd: an option must not be negative, got ", value);
    for (const Tensor& p : parameters_)
      check<StateError>(requires_grad(p) && p.is_contiguous(), "Sgd: a tensor of the shape ",
                        p.shape(), " is no parameter");
  }

  void set_lr(double lr) { opt_.lr = lr; }

  /// A parameter without a gradient is left alone, and so is its velocity.
  void step() {
    const NoGrad off;
    for (size_t i = 0; i < parameters_.size(); ++i)
      if (const Tensor g = grad(parameters_[i]); g.defined())
        update(parameters_[i], g, velocity_[i]);
  }

  /// Drops the gradients: backward() adds to what is there.
  void zero_grad() {
    for (const Tensor& p : parameters_) p.meta()->grad = Tensor();
  }

 private:
  void update(Tensor& p, const Tensor& g, Tensor& velocity) const {
    if (!velocity.defined()) velocity = Tensor(p.shape());
    double *value = writable("Sgd::step", p), *v = velocity.data();
    for (int64_t i = 0; i < p.numel(); ++i) {
      v[i] = opt_.momentum * v[i] + g.data()[i] + opt_.weight_decay * value[i];
      value[i] -= opt_.lr * v[i];
    }
  }

  std::vector<Tensor> parameters_;
  std::vector<Tensor> velocity_;  // undefined before the first step
  SgdOptions opt_;
};

}  // namespace tiny

// What the real one adds, and why
// - optim/kernels/update_math.h: the rules of all optimisers, for CPU and GPU. On a GPU one kernel
//   updates all parameters, because a launch costs more than a small parameter's arithmetic.
// - optim/param_groups.h: options per group. Usually a bias and a batch norm get no weight decay.
