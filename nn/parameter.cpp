// Assignments to a Parameter reach the list of its module.
#include "lathe/nn/parameter.h"

#include <utility>

#include "lathe/nn/module.h"

namespace lathe::nn {

Parameter& Parameter::operator=(Parameter&& made) {
  if (module_ != nullptr) return *this = static_cast<const Tensor&>(made);
  module_ = std::exchange(made.module_, nullptr);
  name_ = std::move(made.name_);
  Tensor::operator=(static_cast<const Tensor&>(made));
  return *this;
}

Parameter& Parameter::operator=(const Tensor& other) {
  if (module_ != nullptr) module_->replace_parameter(name_, other);
  Tensor::operator=(other);
  return *this;
}

}  // namespace lathe::nn
