// Sequential and ModuleList: ownership and order of the modules that they hold.
#include "lathe/nn/containers.h"

namespace lathe::nn {

void ModuleHolder::hold(const std::string& name, std::unique_ptr<Module> module) {
  adopt(*module, name);
  owned_.push_back(std::move(module));
}

Module& ModuleHolder::operator[](int64_t index) const {
  LATHE_CHECK(IndexError, index >= 0 && index < size(), type_name(), ": no module ", index,
              " among ", size());
  return *owned_[static_cast<size_t>(index)];
}

Tensor Sequential::forward(const Tensor& x) {
  Tensor y = x;
  for (const auto& module : modules()) y = (*module)(y);
  return y;
}

}  // namespace lathe::nn
