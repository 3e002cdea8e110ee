// Modules made of modules: Sequential runs them one after another, ModuleList only holds them.
#pragma once

#include <concepts>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "lathe/nn/module.h"

namespace lathe::nn {

/// A layer written as a temporary: nn::Linear(3, 4).
template <class T>
concept TemporaryModule =
    !std::is_reference_v<T> && std::derived_from<T, Module> && !std::is_same_v<T, Module>;

/// Base of Sequential, ModuleList and ModuleDict: owns its modules. They are named "0", "1", …
/// unless the caller names them.
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
    check_name(name);  // before a layer moves in
    auto module = std::make_unique<T>(std::forward<Args>(args)...);
    T& reference = *module;
    hold(name, std::move(module));
    return reference;
  }

  /// Appends a module, named by the next number. The module is moved into the container and leaves
  /// its former parent.
  /// → the module in the container
  template <TemporaryModule T>
  T& push_back(T&& module) {
    return add<T>(std::move(module));
  }
  /// Replaces the module at `index`. The new module gets the old one's name, and the old one is
  /// destroyed.
  ///   net.replace(4, nn::Linear(512, 37));
  /// → the new module in the container
  /// throws: IndexError if there is no module at `index`.
  template <TemporaryModule T>
  T& replace(int64_t index, T&& module) {
    Module& old = (*this)[index];
    auto fresh = std::make_unique<T>(std::move(module));
    T& reference = *fresh;
    exchange_child(old, reference);
    owned_[static_cast<size_t>(index)] = std::move(fresh);
    return reference;
  }

  int64_t size() const { return static_cast<int64_t>(owned_.size()); }
  /// throws: IndexError for an index out of range.
  Module& operator[](int64_t index) const;
  const std::vector<std::unique_ptr<Module>>& modules() const { return owned_; }

 protected:
  /// Removes the last module, for instance a model's head.
  /// throws: IndexError if the container is empty.
  void pop_back();
  void hold(const std::string& name, std::unique_ptr<Module> module);

 private:
  std::vector<std::unique_ptr<Module>> owned_;
};

/// Calls its modules in order; each gets the result of the one before. An empty Sequential returns
/// its input.
///   nn::Sequential net{nn::Conv2d(3, 16, {.kernel = 3}), nn::ReLU(), nn::Flatten()};
///   nn::Sequential tail{*this, "tail", {nn::Linear(784, 64), nn::ReLU(), nn::Linear(64, 10)}};
///   net.add<nn::Linear>(784, 10);
/// Write the layers in braces: they draw their initial values from left to right. Layers in
/// parentheses do not compile, because their order would depend on the compiler. If the only
/// argument is another Sequential, it is moved and not nested.
class LATHE_API Sequential final : public ModuleHolder {
 public:
  /// One of the layers in braces.
  class Layer {
   public:
    template <TemporaryModule T>
    Layer(T&& module) : module_(std::make_unique<T>(std::move(module))) {}

   private:
    friend Sequential;
    mutable std::unique_ptr<Module> module_;  // the elements of an initializer_list are const
  };

  using ModuleHolder::ModuleHolder;
  using ModuleHolder::pop_back;
  /// Takes over the layers, in their order.
  Sequential(std::initializer_list<Layer> layers);
  Sequential(Module& parent, const std::string& name, std::initializer_list<Layer> layers)
      : Sequential(layers) {
    join(parent, name);
  }
  template <TemporaryModule T, TemporaryModule... Ts>
  explicit Sequential(T&&, Ts&&...) = delete;  // Sequential net{…};
  template <TemporaryModule... Ts>
  Sequential(Module&, const std::string&, Ts&&...) = delete;  // Sequential net{*this, "net", {…}};
  Tensor forward(const Tensor& x) override;
};

/// A list of modules without a forward() of its own: the parent's forward() calls them.
class LATHE_API ModuleList final : public ModuleHolder {
 public:
  using ModuleHolder::ModuleHolder;
  using ModuleHolder::pop_back;
};

/// A list of modules of one type T. An element is called like a T, with any signature:
///   nn::ListOf<Block> blocks{*this, "blocks"};  …  for (Block& block : blocks) x = block(x, mask);
template <std::derived_from<Module> T>
class ListOf final : public Module {
 public:
  using Module::Module;

  /// Makes a T from the arguments and holds it, named "0", "1", ….   → the new module
  template <class... Args>
  T& add(Args&&... args) {
    auto module = std::make_unique<T>(std::forward<Args>(args)...);
    take(*module, std::to_string(size()));
    owned_.push_back(std::move(module));
    return *owned_.back();
  }
  int64_t size() const { return static_cast<int64_t>(owned_.size()); }
  /// throws: IndexError for an index out of range.
  T& operator[](int64_t index) const {
    LATHE_CHECK(IndexError, index >= 0 && index < size(), "ListOf: no module ", index, " among ",
                size());
    return *owned_[static_cast<size_t>(index)];
  }

  class Iterator {
   public:
    explicit Iterator(const std::unique_ptr<T>* at) : at_(at) {}
    T& operator*() const { return **at_; }
    Iterator& operator++() {
      ++at_;
      return *this;
    }
    bool operator==(const Iterator&) const = default;

   private:
    const std::unique_ptr<T>* at_;
  };
  Iterator begin() const { return Iterator(owned_.data()); }
  Iterator end() const { return Iterator(owned_.data() + owned_.size()); }

 private:
  std::vector<std::unique_ptr<T>> owned_;
};

/// Modules under names that the caller chooses.
///   nn::ModuleDict heads{*this, "heads"};  heads.add_named<nn::Linear>("colour", 64, 8);
///   heads["colour"](x)
class LATHE_API ModuleDict final : public ModuleHolder {
 public:
  using ModuleHolder::ModuleHolder;
  bool contains(const std::string& name) const;
  /// throws: IndexError naming the modules that there are.
  Module& operator[](const std::string& name) const;
};

/// A list of parameters, named "0", "1", ….
class LATHE_API ParameterList final : public Module {
 public:
  using Module::Module;
  /// throws: what Module::parameter() throws.
  void add(const Tensor& value);
  int64_t size() const { return static_cast<int64_t>(held_.size()); }
  /// throws: IndexError for an index out of range.
  Parameter& operator[](int64_t index);

 private:
  std::deque<Parameter> held_;  // their places stay
};

}  // namespace lathe::nn
