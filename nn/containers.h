// Modules made of modules: Sequential runs them one after another, ModuleList only holds them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lathe/nn/module.h"

namespace lathe::nn {

/// What the two containers share: owns its modules, named "0", "1", … unless a name is given.
class LATHE_API ModuleHolder : public Module {
 public:
  using Module::Module;

  /// Makes a T from the arguments and holds it.   → the new module
  template <class T, class... Args>
  T& add(Args&&... args) {
    return add_named<T>(std::to_string(size()), std::forward<Args>(args)...);
  }
  /// throws: ValueError for a name that is taken or empty or contains a dot.
  template <class T, class... Args>
  T& add_named(const std::string& name, Args&&... args) {
    auto module = std::make_unique<T>(std::forward<Args>(args)...);
    T& reference = *module;
    hold(name, std::move(module));
    return reference;
  }

  int64_t size() const { return static_cast<int64_t>(owned_.size()); }
  /// throws: IndexError.
  Module& operator[](int64_t index) const;
  const std::vector<std::unique_ptr<Module>>& modules() const { return owned_; }

 private:
  void hold(const std::string& name, std::unique_ptr<Module> module);

  std::vector<std::unique_ptr<Module>> owned_;
};

/// forward: each module gets the result of the one before. An empty one returns its input.
///   nn::Sequential seq;  seq.add<nn::Linear>(784, 128);  seq.add<nn::ReLU>();
class LATHE_API Sequential final : public ModuleHolder {
 public:
  using ModuleHolder::ModuleHolder;
  Tensor forward(const Tensor& x) override;
};

/// Modules in no order: the parent's forward decides how they are called.
class LATHE_API ModuleList final : public ModuleHolder {
 public:
  using ModuleHolder::ModuleHolder;
};

}  // namespace lathe::nn
