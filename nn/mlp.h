// MLP: linear layers with an activation between them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lathe/nn/linear.h"
#include "lathe/ops/mlp.h"

namespace lathe::nn {

struct MLPOptions {
  Activation activation = Activation::kRelu;
  bool bias = true;
};

/// Linear(in, sizes[0]), activation, Linear(sizes[0], sizes[1]), …, without an activation after the
/// last layer. […,in] → […,sizes.back()]. All layers run as one op (ops/mlp.h). On a GPU the
/// activations kFastRelu and kGeluTanh run in the kernel of their layer.
///   nn::MLP mlp(784, {256, 256, 10}, {.activation = Activation::kGeluTanh});
/// The layers are the children "0", "2", "4", …. So a checkpoint has the keys of
/// Sequential(Linear, ReLU, Linear, …), also in PyTorch. The layers only hold parameters and are
/// never called: put hooks on the MLP.
class LATHE_API MLP final : public Module {
 public:
  /// Parameters as in Linear: f32, weights and biases U(±1/sqrt(inputs of the layer)).
  /// throws: ValueError if `sizes` is empty; what Linear throws.
  MLP(int64_t in, const std::vector<int64_t>& sizes, const MLPOptions& options = {});
  MLP(Module& parent, const std::string& name, int64_t in, const std::vector<int64_t>& sizes,
      const MLPOptions& options = {})
      : MLP(in, sizes, options) {
    join(parent, name);
  }

  Tensor forward(const Tensor& x) override;
  int64_t macs(const Shape& x, const Shape& y) const override;

  const std::vector<std::unique_ptr<Linear>>& layers() const { return layers_; }
  Activation activation() const { return options_.activation; }

 private:
  std::vector<std::unique_ptr<Linear>> layers_;
  MLPOptions options_;
};

}  // namespace lathe::nn
