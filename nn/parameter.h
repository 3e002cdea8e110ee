// Parameter: a member of a module that stays what the module knows under its name.
#pragma once

#include <string>

#include "lathe/core/tensor.h"

namespace lathe::nn {

class Module;

/// What Module::parameter() returns: a tensor with a place in its module. Assigning another tensor
/// puts that tensor in the place:
///   head.weight = embedding.weight;  // tied: one entry of parameters(), of the state and on disk
/// Do so before an optimiser takes the parameters. A copy is a plain tensor without a place.
class LATHE_API Parameter : public Tensor {
 public:
  Parameter() = default;
  Parameter(const Parameter& other) : Tensor(other) {}
  /// A member without a place takes over that of the result of Module::parameter().
  Parameter& operator=(Parameter&& made);
  Parameter& operator=(const Parameter& other) { return *this = static_cast<const Tensor&>(other); }
  /// throws: ValueError if `other` is undefined, DTypeError unless it is floating, StateError if it
  /// is neither a leaf nor requires grad. Nothing has changed then.
  Parameter& operator=(const Tensor& other);

 private:
  friend Module;
  Parameter(Module& module, const std::string& name, const Tensor& value)
      : Tensor(value), module_(&module), name_(name) {}

  Module* module_ = nullptr;
  std::string name_;
};

}  // namespace lathe::nn
