// MLP: its linear layers as children "0", "2", …, and one call of the op (ops/mlp.h) over all.
#include "lathe/nn/mlp.h"

namespace lathe::nn {

MLP::MLP(int64_t in, const std::vector<int64_t>& sizes, const MLPOptions& options)
    : options_(options) {
  LATHE_CHECK(ValueError, !sizes.empty(), "MLP: there is no layer (in: ", in, ")");
  for (const int64_t size : sizes) {
    layers_.push_back(std::make_unique<Linear>(in, size, LinearOptions{.bias = options.bias}));
    adopt(*layers_.back(), std::to_string(2 * (layers_.size() - 1)));
    in = size;
  }
}

Tensor MLP::forward(const Tensor& x) {
  std::vector<MlpLayer> layers;
  for (const auto& layer : layers_) layers.push_back({layer->weight, layer->bias});
  return mlp(x, layers, {.activation = options_.activation});
}

int64_t MLP::macs(const Shape&, const Shape& y) const {
  int64_t rows = 1, weights = 0;
  for (int i = 0; i + 1 < y.size(); ++i) rows *= y[i];
  for (const auto& layer : layers_) weights += layer->weight.numel();
  return rows * weights;
}

}  // namespace lathe::nn
