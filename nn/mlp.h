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

/// Linear(in, sizes[0]), activation, Linear(sizes[0], sizes[1]), …, the last one without an
/// activation: […,in] → […,sizes.back()]. One op, in which a GPU computes a layer and its kFastRelu
/// or kGeluTanh in one kernel; see ops/mlp.h.
///   nn::MLP mlp(784, {256, 256, 10}, {.activation = Activation::kGeluTanh});
/// Its layers are the children "0", "2", "4", …: the keys of a checkpoint are those of
/// Sequential(Linear, ReLU, Linear, …), here and in PyTorch. They hold parameters and are not
/// called: hooks belong on the MLP.
class LATHE_API MLP final : public Module {
 public:
  /// Parameters as Linear makes them: f32, weights and biases uniform in ±1/sqrt(its inputs).
  /// throws: ValueError unless there is a size, and what Linear throws for one.
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
