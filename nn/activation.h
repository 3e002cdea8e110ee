// Activations as modules, for Sequential. The formulas are at the ops of the same name.
#pragma once

#include "lathe/nn/module.h"
#include "lathe/ops/softmax.h"
#include "lathe/ops/unary.h"

namespace lathe::nn {

// Without options: nn::ReLU act; or, as a member, nn::ReLU act{*this, "act"}.
class LATHE_API ReLU final : public Module {
 public:
  using Module::Module;
  Tensor forward(const Tensor& x) override { return relu(x); }
};
class LATHE_API SiLU final : public Module {
 public:
  using Module::Module;
  Tensor forward(const Tensor& x) override { return silu(x); }
};
class LATHE_API Tanh final : public Module {
 public:
  using Module::Module;
  Tensor forward(const Tensor& x) override { return tanh(x); }
};
class LATHE_API Sigmoid final : public Module {
 public:
  using Module::Module;
  Tensor forward(const Tensor& x) override { return sigmoid(x); }
};

class LATHE_API LeakyReLU final : public Module {
 public:
  explicit LeakyReLU(double slope = 0.01) : slope_(slope) {}
  LeakyReLU(Module& parent, const std::string& name, double slope = 0.01) : LeakyReLU(slope) {
    join(parent, name);
  }
  Tensor forward(const Tensor& x) override { return leaky_relu(x, slope_); }
  double slope() const { return slope_; }

 private:
  double slope_;
};

class LATHE_API GELU final : public Module {
 public:
  explicit GELU(const GeluOptions& options = {}) : options_(options) {}
  GELU(Module& parent, const std::string& name, const GeluOptions& options = {}) : GELU(options) {
    join(parent, name);
  }
  Tensor forward(const Tensor& x) override { return gelu(x, options_); }

 private:
  GeluOptions options_;
};

class LATHE_API Softmax final : public Module {
 public:
  explicit Softmax(int64_t dim) : dim_(dim) {}
  Softmax(Module& parent, const std::string& name, int64_t dim) : Softmax(dim) {
    join(parent, name);
  }
  Tensor forward(const Tensor& x) override { return softmax(x, dim_); }
  int64_t dim() const { return dim_; }

 private:
  int64_t dim_;
};

}  // namespace lathe::nn
