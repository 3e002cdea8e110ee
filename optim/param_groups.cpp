// The splits: norms and embeddings are found by their module's type, biases by their dimensions.
#include "lathe/optim/param_groups.h"

#include <unordered_set>

#include "lathe/nn/batch_norm.h"
#include "lathe/nn/embedding.h"
#include "lathe/nn/fine_tuning.h"
#include "lathe/nn/norm.h"

namespace lathe::optim {

namespace {

bool is_norm(const nn::Module& module) {
  return dynamic_cast<const nn::BatchNorm*>(&module) != nullptr ||
         dynamic_cast<const nn::LayerNorm*>(&module) != nullptr ||
         dynamic_cast<const nn::GroupNorm*>(&module) != nullptr;
}

using Parameters = std::unordered_set<const TensorImpl*>;

/// The parameters of the parts of a module for which `chosen` is true.
template <class Chosen>
Parameters parameters_of(nn::Module& module, Chosen chosen) {
  Parameters out;
  for (const auto& [name, part] : module.named_modules()) {
    if (!chosen(*part)) continue;
    for (const Tensor& p : part->parameters()) out.insert(p.handle().get());
  }
  return out;
}

}  // namespace

DecaySplit split_by_decay(nn::Module& module) {
  const Parameters of_norms = parameters_of(module, is_norm);
  DecaySplit out;
  for (const Tensor& p : module.parameters()) {
    const bool decays = p.ndim() > 1 && !of_norms.contains(p.handle().get());
    (decays ? out.decay : out.no_decay).push_back(p);
  }
  return out;
}

/// Whether Muon's matrix [p.dim(0), rest] of a parameter has one row or column, or is empty. Then
/// it is a vector that has other dimensions for broadcasting.
static bool is_vector(const Tensor& p) {
  return p.ndim() < 2 || p.dim(0) <= 1 || p.numel() <= p.dim(0);
}

MuonSplit split_for_muon(nn::Module& module) {
  const Parameters apart = parameters_of(module, [](const nn::Module& part) {
    return is_norm(part) || dynamic_cast<const nn::Embedding*>(&part) != nullptr;
  });
  const Tensors body = nn::split_by_head(module, module.parameters()).first;
  Parameters of_body;
  for (const Tensor& p : body) of_body.insert(p.handle().get());
  MuonSplit out;
  for (const Tensor& p : module.parameters()) {
    const TensorImpl* const key = p.handle().get();
    const bool hidden = !is_vector(p) && of_body.contains(key) && !apart.contains(key);
    (hidden ? out.hidden : out.others).push_back(p);
  }
  return out;
}

}  // namespace lathe::optim
