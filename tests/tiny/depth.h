// Deep networks for docs/tour/recipe.md: plain ones and residual ones, of linear layers and relus.
#pragma once

#include "../../tiny/loader.h"
#include "../../tiny/net.h"
#include "../../tiny/sgd.h"

namespace tiny {

enum class Depth { kPlain, kKaiming, kResidual };

/// `depth` layers between one that reads the image and one that gives the scores:
/// h becomes f(h), or h + f(h) if residual, where f(h) = linear(relu(h)).
class DeepNet {
 public:
  DeepNet(int64_t pixels, int64_t depth, Depth kind, int64_t width = 32)
      : kind_(kind), first_(pixels, width, random_) {
    for (int64_t i = 0; i < depth; ++i) {
      layers_.emplace_back(width, width, random_);
      if (kind == Depth::kKaiming)
        layers_.back().weight =
            parameter(random_.uniform({width, width}, std::sqrt(6.0 / static_cast<double>(width))));
    }
    layers_.emplace_back(width, 10, random_);
  }

  /// What the layers from `layer` on make of h.
  Tensor from(size_t layer, Tensor h) const {
    for (; layer + 1 < layers_.size(); ++layer) {
      const Tensor f = layers_[layer](relu(h));
      h = kind_ == Depth::kResidual ? h + f : f;
    }
    return h;
  }
  Tensor forward(const Tensor& x) const {
    const Tensor h = first_(reshape(x, {x.dim(0), x.numel() / x.dim(0)}));
    return layers_.back()(relu(from(0, h)));
  }
  std::vector<Tensor> parameters() const {
    std::vector<Tensor> all{first_.weight, first_.bias};
    for (const Linear& layer : layers_) all.insert(all.end(), {layer.weight, layer.bias});
    return all;
  }

 private:
  Depth kind_;
  Generator random_{0};
  Linear first_;
  std::vector<Linear> layers_;
};

/// The mean loss of the last of three epochs with the images of tiny/main.cpp, and the accuracy on
/// the test images after it.
inline std::pair<double, double> train_deep(int64_t depth, Depth kind) {
  const Dataset train_set = made_up_images(2000, 1), test_set = made_up_images(500, 2);
  DeepNet net(train_set.height * train_set.width, depth, kind);
  Sgd sgd(net.parameters(), {.lr = 0.01, .momentum = 0.9});
  double loss = 0, right = 0;
  for (uint64_t number = 0; number < 3; ++number) {
    loss = 0;
    Epoch epoch(train_set, {.batch_size = 64, .shuffle = true, .seed = 1}, number);
    while (const std::optional<Batch> batch = epoch.next()) {
      sgd.zero_grad();
      const Tensor mean = cross_entropy(net.forward(batch->x), batch->labels);
      backward(mean);
      sgd.step();
      loss += mean.item() * static_cast<double>(batch->labels.size()) / 2000;
    }
  }
  const NoGrad off;
  Epoch epoch(test_set, {.batch_size = 64}, 0);
  while (const std::optional<Batch> batch = epoch.next()) {
    const Tensor scores = net.forward(batch->x);
    for (size_t n = 0; n < batch->labels.size(); ++n) {
      const double* row = scores.data() + n * 10;
      right += std::max_element(row, row + 10) - row == batch->labels[n];
    }
  }
  return {loss, right / 500};
}

/// The root mean square of the elements.
inline double size_of(const Tensor& x) {
  double squares = 0;
  for (int64_t i = 0; i < x.numel(); ++i) squares += x.data()[i] * x.data()[i];
  return std::sqrt(squares / static_cast<double>(x.numel()));
}

/// How large the gradient is behind `depth` layers of 100 numbers on the way back, in units of the
/// gradient that went in.
inline double gradient_through(int64_t depth, Depth kind) {
  const DeepNet net(100, depth, kind, 100);
  Generator random(1);
  const Tensor h = parameter(random.uniform({100, 100}, 1)), dy = random.uniform({100, 100}, 1);
  backward(sum(net.from(0, h) * dy));
  return size_of(grad(h)) / size_of(dy);
}

}  // namespace tiny
