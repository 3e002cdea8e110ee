// Splits a module's parameters by whether weight decay should act on them.
#pragma once

#include "lathe/core/tensor.h"
#include "lathe/nn/module.h"

namespace lathe::optim {

struct DecaySplit {
  Tensors decay;  // weights of linear layers, convolutions, embeddings, …
  // Parameters of batch, layer and group norms, and all of fewer than two dimensions (biases).
  Tensors no_decay;
};

/// Splits the module's parameters into those that weight decay should act on and those that it
/// should not: parameters of norms, and parameters of at most one dimension (biases). Both lists
/// have the order of parameters(). A list may be empty, but an optimiser's group must not be.
///   auto [decay, no_decay] = split_by_decay(model);
///   SGD opt({{.params = decay, .weight_decay = 5e-4}, {.params = no_decay}}, {.lr = 0.1});
/// ref: He et al. 2019 (arXiv:1812.01187), section 3.1.
LATHE_API DecaySplit split_by_decay(nn::Module& module);

}  // namespace lathe::optim
