// Which parameters decay.
#include "lathe/optim/param_groups.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "lathe/nn/containers.h"
#include "lathe/nn/embedding.h"
#include "lathe/nn/linear.h"
#include "lathe/nn/norm.h"
#include "lathe/nn/resnet.h"
#include "lathe/ops/creation.h"
#include "lathe/optim/sgd.h"

namespace lathe {
namespace {

/// The names of `params` in the model.
std::vector<std::string> names_of(const nn::Module& model, const Tensors& params) {
  std::vector<std::string> out;
  for (const Tensor& p : params) {
    for (const auto& [name, tensor] : model.named_parameters()) {
      if (tensor.is_same(p)) out.push_back(name);
    }
  }
  return out;
}

TEST_CASE("split_by_decay: a ResNet's convolutions and its last weight decay, nothing else") {
  auto model = nn::resnet18({.classes = 10, .stem = nn::Stem::kCifar});
  const optim::DecaySplit split = optim::split_by_decay(model);
  CHECK(split.decay.size() == 20 + 1);         // 17 3x3 and 3 1x1 convolutions, fc.weight
  CHECK(split.no_decay.size() == 2 * 20 + 1);  // batch norms, fc.bias
  for (const std::string& name : names_of(model, split.decay)) {
    CHECK(name.ends_with("weight"));
    CHECK(name.find("bn") == std::string::npos);
  }
  const auto rest = names_of(model, split.no_decay);
  CHECK(std::ranges::count(rest, "fc.bias") == 1);
  CHECK(std::ranges::count(rest, "layer2.0.downsample.1.weight") == 1);
}

TEST_CASE("split_by_decay: a linear model, an embedding, norms over several dimensions") {
  nn::Linear linear(4, 2);
  const optim::DecaySplit split = optim::split_by_decay(linear);
  CHECK(names_of(linear, split.decay) == std::vector<std::string>{"weight"});
  CHECK(names_of(linear, split.no_decay) == std::vector<std::string>{"bias"});

  nn::Sequential model;
  model.add<nn::Embedding>(7, 4);
  model.add<nn::LayerNorm>(Shape{3, 4});  // its parameters have two dimensions
  model.add<nn::GroupNorm>(1, 3);
  model.add<nn::Linear>(4, 2, nn::LinearOptions{.bias = false});
  const optim::DecaySplit mixed = optim::split_by_decay(model);
  CHECK(names_of(model, mixed.decay) == std::vector<std::string>{"0.weight", "3.weight"});
  CHECK(names_of(model, mixed.no_decay) ==
        std::vector<std::string>{"1.weight", "1.bias", "2.weight", "2.bias"});
}

TEST_CASE("split_by_decay: with its groups a zero gradient moves only what decays") {
  auto model = nn::resnet8({.classes = 3});
  auto [decay, no_decay] = optim::split_by_decay(model);
  CHECK(decay.size() + no_decay.size() == model.parameters().size());
  optim::SGD optimizer({{.params = decay, .weight_decay = 0.5}, {.params = no_decay}}, {.lr = 0.1});
  std::vector<std::vector<float>> before;
  for (const Tensor& p : optimizer.params()) {
    before.push_back(p.to_vector<float>());
    p.set_grad(zeros_like(p).detach());
  }
  optimizer.step();
  const Tensors params = optimizer.params();
  for (size_t i = 0; i < params.size(); ++i) {
    CHECK((params[i].to_vector<float>() == before[i]) == (i >= decay.size()));
  }
}

}  // namespace
}  // namespace lathe
