// Containers: ownership, order and names of what they hold.
#include "lathe/nn/containers.h"

#include <algorithm>

namespace lathe::nn {

void ModuleHolder::hold(const std::string& name, std::unique_ptr<Module> module) {
  LATHE_CHECK(ValueError, module != nullptr, type_name(), ": the module \"", name, "\" is null");
  owned_.reserve(owned_.size() + 1);  // nothing below throws once the module has its place
  take(*module, name);
  owned_.push_back(std::move(module));
}

void ModuleHolder::pop_back() {
  LATHE_CHECK(IndexError, size() > 0, type_name(), ": pop_back of an empty container");
  owned_.pop_back();  // leaves its parent's list as it goes
}

Module& ModuleHolder::operator[](int64_t index) const {
  LATHE_CHECK(IndexError, index >= 0 && index < size(), type_name(), ": no module ", index,
              " among ", size());
  return *owned_[static_cast<size_t>(index)];
}

Sequential::Sequential(std::initializer_list<Layer> layers) {
  // For Sequential{Sequential} g++ calls this function, and clang the one that moves.
  if (layers.size() == 1) {
    if (auto* const only = dynamic_cast<Sequential*>(layers.begin()->module_.get())) {
      *this = std::move(*only);
      return;
    }
  }
  for (const Layer& layer : layers) hold(std::to_string(size()), std::move(layer.module_));
}

Tensor Sequential::forward(const Tensor& x) {
  Tensor y = x;
  for (const auto& module : modules()) y = (*module)(y);
  return y;
}

bool ModuleDict::contains(const std::string& name) const {
  const auto children = named_children();
  return std::ranges::any_of(children, [&](const auto& child) { return child.first == name; });
}

Module& ModuleDict::operator[](const std::string& name) const {
  std::string known;
  for (const auto& [child, module] : named_children()) {
    if (child == name) return *module;
    known += concat(known.empty() ? "" : ", ", child);
  }
  LATHE_FAIL(IndexError, "ModuleDict: no module \"", name, "\" (there are: ", known, ")");
}

void ParameterList::add(const Tensor& value) {
  held_.emplace_back() = parameter(std::to_string(size()), value);
}

Parameter& ParameterList::operator[](int64_t index) {
  LATHE_CHECK(IndexError, index >= 0 && index < size(), "ParameterList: no parameter ", index,
              " among ", size());
  return held_[static_cast<size_t>(index)];
}

}  // namespace lathe::nn
