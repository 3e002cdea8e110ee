// Linear, Flatten and Identity.
#pragma once

#include <concepts>

#include "lathe/nn/module.h"

namespace lathe::nn {

struct LinearOptions {
  bool bias = true;
  bool init = true;  // false: the caller fills weight and bias next (init::left_open)
};

/// y = x·weight^T + bias over the last dimension: […,in] → […,out]; see ops/matmul.h.
/// weight [out,in] and bias [out], U(±1/sqrt(in)).
class LATHE_API Linear final : public Module {
 public:
  Linear(int64_t in, int64_t out, const LinearOptions& options = {});
  Linear(int64_t in, int64_t out, std::same_as<bool> auto has_bias)
      : Linear(in, out, LinearOptions{.bias = has_bias}) {}
  Linear(Module& parent, const std::string& name, int64_t in, int64_t out,
         const LinearOptions& options = {})
      : Linear(in, out, options) {
    join(parent, name);
  }

  Tensor forward(const Tensor& x) override;
  int64_t macs(const Shape& x, const Shape& y) const override;
  std::optional<LoraLayer> lora_layer() const override;

  Parameter weight, bias;
};

struct FlattenOptions {
  int64_t first = 1, last = -1;
};

/// Merges dimensions first … last into one: [N,C,H,W] → [N,C·H·W] by default.
class LATHE_API Flatten final : public Module {
 public:
  explicit Flatten(const FlattenOptions& options = {}) : options_(options) {}
  Flatten(Module& parent, const std::string& name, const FlattenOptions& options = {})
      : Flatten(options) {
    join(parent, name);
  }

  Tensor forward(const Tensor& x) override;
  const FlattenOptions& options() const { return options_; }

 private:
  FlattenOptions options_;
};

/// y = x.
class LATHE_API Identity final : public Module {
 public:
  using Module::Module;
  Tensor forward(const Tensor& x) override { return x; }
};

}  // namespace lathe::nn
