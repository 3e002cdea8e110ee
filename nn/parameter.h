// Parameter: a member of a module. An assignment to it also changes the module's entry of that
// name.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "lathe/core/tensor.h"

namespace lathe::nn {

class Module;

/// The result of Module::parameter(): a tensor that is registered in a module under a name. An
/// assignment registers another tensor under that name:
///   head.weight = embedding.weight;  // tied: one entry of parameters(), of the state and on disk
/// Assign before an optimiser takes the parameters. A copy is a plain tensor: it is not registered.
class LATHE_API Parameter : public Tensor {
 public:
  Parameter() = default;
  Parameter(const Parameter& other) : Tensor(other) {}
  /// Moves with its module. The new Parameter takes over the registration, and `other` is no longer
  /// registered.
  Parameter(Parameter&& other) noexcept = default;
  /// Assigns the result of Module::parameter(). The member takes over the tensor of `made`. If the
  /// member is not registered in a module yet, it also takes over the name under which `made` is
  /// registered. Otherwise it keeps its own name, whose tensor in the module is replaced.
  Parameter& operator=(Parameter&& made);
  /// Ties the two parameters: both are the same tensor then. A frozen parameter stays frozen.
  Parameter& operator=(const Parameter& other);
  /// Registers `other` under this parameter's name and makes it require grad.
  /// throws: ValueError if `other` is undefined; DTypeError unless it is floating; StateError if it
  /// is the result of a recorded op (detach() it). Nothing has changed then.
  Parameter& operator=(const Tensor& other);
  /// Exchanges the tensors of a and b. Each keeps its name in its module.
  friend void swap(Parameter& a, Parameter& b) {
    const Tensor kept = a;
    a = static_cast<const Tensor&>(b);
    b = kept;
  }

 private:
  friend Module;
  Parameter(std::shared_ptr<Module*> module, const std::string& name, const Tensor& value)
      : Tensor(value), module_(std::move(module)), name_(name) {}
  /// Null if this parameter is not registered.
  Module* module() const { return module_ == nullptr ? nullptr : *module_; }

  std::shared_ptr<Module*> module_;  // where the module is now
  std::string name_;
};

}  // namespace lathe::nn
