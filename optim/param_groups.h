// What weight decay should act on, and what not.
#pragma once

#include "lathe/core/tensor.h"
#include "lathe/nn/module.h"

namespace lathe::optim {

struct DecaySplit {
  Tensors decay;     // weights of linear layers, convolutions, embeddings, …
  Tensors no_decay;  // parameters of batch, layer and group norms, and all of fewer than two
                     // dimensions: biases
};

/// The module's parameters in two lists, each once and in the order of parameters(); either may be
/// empty (an optimiser's group may not). For an optimiser with groups:
///   auto [decay, no_decay] = split_by_decay(model);
///   SGD opt({{.params = decay, .weight_decay = 5e-4}, {.params = no_decay}}, {.lr = 0.1});
/// ref: He et al. 2019 (arXiv:1812.01187), section 3.1.
LATHE_API DecaySplit split_by_decay(nn::Module& module);

}  // namespace lathe::optim
