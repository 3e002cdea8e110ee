// split_by_decay(): norms are found by their module's type, biases by their dimensions.
#include "lathe/optim/param_groups.h"

#include <unordered_set>

#include "lathe/nn/batch_norm.h"
#include "lathe/nn/norm.h"

namespace lathe::optim {

namespace {

bool is_norm(const nn::Module& module) {
  return dynamic_cast<const nn::BatchNorm*>(&module) != nullptr ||
         dynamic_cast<const nn::LayerNorm*>(&module) != nullptr ||
         dynamic_cast<const nn::GroupNorm*>(&module) != nullptr;
}

}  // namespace

DecaySplit split_by_decay(nn::Module& module) {
  std::unordered_set<const TensorImpl*> of_norms;
  for (const auto& [name, part] : module.named_modules()) {
    if (!is_norm(*part)) continue;
    for (const Tensor& p : part->parameters()) of_norms.insert(p.handle().get());
  }
  DecaySplit out;
  for (const Tensor& p : module.parameters()) {
    const bool decays = p.ndim() > 1 && !of_norms.contains(p.handle().get());
    (decays ? out.decay : out.no_decay).push_back(p);
  }
  return out;
}

}  // namespace lathe::optim
