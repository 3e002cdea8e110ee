// Assignments to a Parameter reach the list of its module.
#include "lathe/nn/parameter.h"

#include <utility>

#include "lathe/nn/module.h"

namespace lathe::nn {

Parameter& Parameter::operator=(Parameter&& made) {
  if (module() != nullptr) return *this = static_cast<const Parameter&>(made);
  module_ = std::move(made.module_);
  name_ = std::move(made.name_);
  Tensor::operator=(static_cast<const Tensor&>(made));
  return *this;
}

Parameter& Parameter::operator=(const Parameter& other) {
  const bool is_frozen = other.module() != nullptr && !other.requires_grad();
  if (!is_frozen) return *this = static_cast<const Tensor&>(other);
  if (module() != nullptr) module()->put_parameter(name_, other);
  Tensor::operator=(other);
  return *this;
}

Parameter& Parameter::operator=(const Tensor& other) {
  if (module() != nullptr) module()->replace_parameter(name_, other);
  Tensor::operator=(other);
  return *this;
}

}  // namespace lathe::nn
