// functional_call: lends the module's tensors to others for one call.
#include "lathe/nn/functional_call.h"

#include <algorithm>
#include <deque>

#include "lathe/autograd/lend.h"

namespace lathe::nn {

namespace {

const Tensor& find(const Module::Named<Tensor>& own, const Module& module,
                   const std::string& name) {
  const auto at = std::ranges::find(own, name, &std::pair<std::string, Tensor>::first);
  LATHE_CHECK(ValueError, at != own.end(), "functional_call: ", module.type_name(),
              " has no parameter or buffer \"", name, "\"");
  return at->second;
}

}  // namespace

Tensor functional_call(Module& module, const Module::Named<Tensor>& tensors, const Tensor& x) {
  Module::Named<Tensor> own = module.named_parameters();
  for (auto& buffer : module.named_buffers()) own.push_back(std::move(buffer));

  std::deque<autograd::Lent> lent;
  for (const auto& [name, shown] : tensors) {
    const Tensor& target = find(own, module, name);
    LATHE_CHECK(ValueError, shown.defined(), "functional_call: \"", name, "\" is undefined");
    LATHE_CHECK(ValueError, !target.impl().lent, "functional_call: \"", name, "\" comes twice");
    if (shown.is_same(target)) continue;
    for (const auto& [other, tensor] : own) {
      LATHE_CHECK(ValueError, !shown.is_same(tensor), "functional_call: \"", other,
                  "\" cannot stand for \"", name, "\": it is the module's own");
    }
    lent.emplace_back(target, shown);
  }
  return autograd::lasting(module(x));
}

}  // namespace lathe::nn
