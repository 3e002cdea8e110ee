// Splits a module's parameters in two: by whether weight decay should act on them, or by whether
// Muon should update them.
#pragma once

#include "lathe/core/tensor.h"
#include "lathe/nn/module.h"

namespace lathe::optim {

struct DecaySplit {
  Tensors decay;  // weights of linear layers, convolutions, embeddings, …
  // Parameters of batch, layer and group norms, and all of fewer than two dimensions (biases).
  Tensors no_decay;
};

/// Splits the module's parameters into two lists. Weight decay should not act on the second list:
/// parameters of norms, and parameters of at most one dimension (biases). The first list has all
/// others. Both lists have the order of parameters(). A list may be empty, but an optimiser's group
/// must not be.
///   auto [decay, no_decay] = split_by_decay(model);
///   SGD opt({{.params = decay, .weight_decay = 5e-4}, {.params = no_decay}}, {.lr = 0.1});
/// ref: He et al. 2019 (arXiv:1812.01187), section 3.1.
LATHE_API DecaySplit split_by_decay(nn::Module& module);

struct MuonSplit {
  Tensors hidden;  // matrices and filters inside of the network
  // All else: the head (nn/fine_tuning.h), embeddings, norms, vectors (biases), and parameters
  // whose Muon matrix [dim 0, rest] has one row or one column: [1,…], [n,1], [n,1,1].
  Tensors others;
};

/// Splits the module's parameters into those that Muon is for (hidden matrices and filters) and all
/// others, both in the order of parameters(). A list may be empty, but an optimiser's group must
/// not be. Among the others are a Vision Transformer's class token [1,1,d] and positions [1,t,d],
/// and ConvNeXt's layer_scale [c,1,1]. A table [t,d] is found as an nn::Embedding only: as another
/// parameter, or in an exported program (graph/pt2/program.h), it counts as hidden.
///   auto [hidden, others] = split_for_muon(model);
///   Muon opt({{.params = hidden}, {.params = others, .use_adamw = true}});
/// ref: Jordan et al. 2024, and the documentation of torch.optim.Muon.
LATHE_API MuonSplit split_for_muon(nn::Module& module);

}  // namespace lathe::optim
