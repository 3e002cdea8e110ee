// Dropout as a module; the rule is at ops/dropout.h.
#pragma once

#include "lathe/nn/module.h"
#include "lathe/ops/dropout.h"

namespace lathe::nn {

/// Drops elements in training; the identity in evaluation.
class LATHE_API Dropout final : public Module {
 public:
  /// throws: ValueError for p outside [0, 1].
  explicit Dropout(double p = 0.5, Generator* generator = nullptr) : p_(p), generator_(generator) {
    LATHE_CHECK(ValueError, p >= 0 && p <= 1, "Dropout: p must be in [0,1], got ", p);
  }
  Dropout(Module& parent, const std::string& name, double p = 0.5, Generator* generator = nullptr)
      : Dropout(p, generator) {
    join(parent, name);
  }
  Tensor forward(const Tensor& x) override {
    return dropout(x, {.p = p_, .train = is_training(), .generator = generator_});
  }

 private:
  double p_;
  Generator* generator_;
};

}  // namespace lathe::nn
