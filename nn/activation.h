// Activations as modules, for Sequential. The ops of the same name have the formulas and options:
// ops/activations.h, ops/unary.h, ops/softmax.h.
// Only PReLU has parameters; none has other state.
#pragma once

#include "lathe/nn/module.h"
#include "lathe/ops/activations.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/softmax.h"
#include "lathe/ops/unary.h"

namespace lathe::nn {

// These layers have no options: nn::ReLU act; or, as a member, nn::ReLU act{*this, "act"}.
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

class LATHE_API ReLU6 final : public Module {
 public:
  using Module::Module;
  Tensor forward(const Tensor& x) override { return relu6(x); }
};
class LATHE_API Hardsigmoid final : public Module {
 public:
  using Module::Module;
  Tensor forward(const Tensor& x) override { return hardsigmoid(x); }
};
class LATHE_API Hardswish final : public Module {
 public:
  using Module::Module;
  Tensor forward(const Tensor& x) override { return hardswish(x); }
};
class LATHE_API Mish final : public Module {
 public:
  using Module::Module;
  Tensor forward(const Tensor& x) override { return mish(x); }
};
class LATHE_API SELU final : public Module {
 public:
  using Module::Module;
  Tensor forward(const Tensor& x) override { return selu(x); }
};
class LATHE_API Softsign final : public Module {
 public:
  using Module::Module;
  Tensor forward(const Tensor& x) override { return softsign(x); }
};
class LATHE_API LogSigmoid final : public Module {
 public:
  using Module::Module;
  Tensor forward(const Tensor& x) override { return logsigmoid(x); }
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

class LATHE_API LogSoftmax final : public Module {
 public:
  explicit LogSoftmax(int64_t dim) : dim_(dim) {}
  LogSoftmax(Module& parent, const std::string& module_name, int64_t dim) : LogSoftmax(dim) {
    join(parent, module_name);
  }
  Tensor forward(const Tensor& x) override { return log_softmax(x, dim_); }

 private:
  int64_t dim_;
};

class LATHE_API ELU final : public Module {
 public:
  explicit ELU(double alpha = 1.0) : alpha_(alpha) {}
  ELU(Module& parent, const std::string& module_name, double alpha = 1.0) : ELU(alpha) {
    join(parent, module_name);
  }
  Tensor forward(const Tensor& x) override { return elu(x, alpha_); }

 private:
  double alpha_;
};

class LATHE_API Softplus final : public Module {
 public:
  explicit Softplus(const SoftplusOptions& options = {}) : options_(options) {}
  Softplus(Module& parent, const std::string& module_name, const SoftplusOptions& options = {})
      : Softplus(options) {
    join(parent, module_name);
  }
  Tensor forward(const Tensor& x) override { return softplus(x, options_); }

 private:
  SoftplusOptions options_;
};

class LATHE_API GLU final : public Module {
 public:
  explicit GLU(int64_t dim = -1) : dim_(dim) {}
  GLU(Module& parent, const std::string& module_name, int64_t dim = -1) : GLU(dim) {
    join(parent, module_name);
  }
  Tensor forward(const Tensor& x) override { return glu(x, dim_); }

 private:
  int64_t dim_;
};

class LATHE_API Hardtanh final : public Module {
 public:
  explicit Hardtanh(double low = -1.0, double high = 1.0) : low_(low), high_(high) {}
  Hardtanh(Module& parent, const std::string& name, double low = -1.0, double high = 1.0)
      : Hardtanh(low, high) {
    join(parent, name);
  }
  Tensor forward(const Tensor& x) override { return hardtanh(x, low_, high_); }

 private:
  double low_, high_;
};

/// prelu() with a trainable weight [channels], initially `slope`. With channels = 1 one slope holds
/// for all elements, otherwise one for each channel (dimension 1 of x).
class LATHE_API PReLU final : public Module {
 public:
  explicit PReLU(int64_t channels = 1, double slope = 0.25)
      : weight(parameter("weight", full({channels}, slope))) {}
  PReLU(Module& parent, const std::string& name, int64_t channels = 1, double slope = 0.25)
      : PReLU(channels, slope) {
    join(parent, name);
  }
  Tensor forward(const Tensor& x) override { return prelu(x, weight); }

  Parameter weight;
};

}  // namespace lathe::nn
