// Parameter: a member of a module that stays what the module knows under its name.
#pragma once

#include <memory>
#include <string>
#include <utility>

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
  /// Moves with its module: the place goes along, and what was moved from has none.
  Parameter(Parameter&& other) noexcept = default;
  /// A member without a place takes over that of the result of Module::parameter().
  Parameter& operator=(Parameter&& made);
  /// Ties the two. A frozen parameter stays frozen.
  Parameter& operator=(const Parameter& other);
  /// Another tensor requires grad from then on.
  /// throws: ValueError if `other` is undefined, DTypeError unless it is floating, StateError if it
  /// is neither a leaf nor requires grad. Nothing has changed then.
  Parameter& operator=(const Tensor& other);
  /// Exchanges the tensors; the places stay.
  friend void swap(Parameter& a, Parameter& b) {
    const Tensor kept = a;
    a = static_cast<const Tensor&>(b);
    b = kept;
  }

 private:
  friend Module;
  Parameter(std::shared_ptr<Module*> module, const std::string& name, const Tensor& value)
      : Tensor(value), module_(std::move(module)), name_(name) {}
  /// Null without a place.
  Module* module() const { return module_ == nullptr ? nullptr : *module_; }

  std::shared_ptr<Module*> module_;  // where the module is now
  std::string name_;
};

}  // namespace lathe::nn
