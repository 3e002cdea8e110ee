// ModuleOf: a module whose forward() has another signature than Tensor(const Tensor&).
//   struct Attention : nn::ModuleOf<Tensor(const Tensor& x, const Tensor& mask)> {
//     using ModuleOf::ModuleOf, ModuleOf::forward;  // the second for compilers that warn of hiding
//     nn::Linear qkv{*this, "qkv", 64, 192};
//     Tensor forward(const Tensor& x, const Tensor& mask) override { … }
//   };
// With one tensor as the argument and another result: ModuleOf<std::pair<Tensor, Tensor>(Tensor
// x)>.
// It is registered, saved, moved and summarised like any module, and called by its own signature:
// attention(x, mask). CallHooks see the tensors in the arguments and in the result.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "lathe/nn/module.h"

namespace lathe::nn {

// Appends the tensors in a value, in order. The value is a tensor; a list, pair, tuple, optional or
// map of such values; or a struct with a member `Tensors tensors() const`. Other values hold no
// tensors.
template <class T>
void append_tensors(Tensors& out, const T& value);

/// The tensors in the values, in order, as append_tensors() finds them.
template <class... Ts>
Tensors tensors_in(const Ts&... values) {
  Tensors out;
  (append_tensors(out, values), ...);
  return out;
}

template <class Signature>
class ModuleOf;

template <class R, class... Args>
class ModuleOf<R(Args...)> : public Module {
  static_assert(!std::is_void_v<R> && !std::is_reference_v<R>,
                "ModuleOf: forward() must return a value");
  static_assert(!std::is_same_v<std::tuple<Args...>, std::tuple<const Tensor&>>,
                "ModuleOf: forward(const Tensor&) is Module's; take one Tensor by value");

 public:
  using Module::forward;
  using Module::Module;

  virtual R forward(Args... args) = 0;

  /// Runs forward(), then the CallHooks.
  /// throws: what forward() throws. The message of an Error begins with the path() of the innermost
  /// module whose call failed.
  R operator()(Args... args) {
    std::optional<R> result;
    call([&] {
      const bool hooked = has_hooks();
      Tensors inputs;  // taken first: forward() may move them
      if (hooked) inputs = tensors_in(args...);
      // Through a pointer, which tells it from Module's: forward(Tensor) is ambiguous with that.
      const auto own = static_cast<R (ModuleOf::*)(Args...)>(&ModuleOf::forward);
      result.emplace((this->*own)(std::forward<Args>(args)...));
      if (hooked) run_call_hooks(inputs, tensors_in(*result));
    });
    return *std::move(result);
  }

 protected:
  bool takes_one_tensor() const override { return false; }
};

namespace detail {

inline void append(Tensors& out, const Tensor& tensor) {
  if (tensor.defined()) out.push_back(tensor);
}
template <class T>
void append(Tensors& out, const std::optional<T>& value) {
  if (value) append_tensors(out, *value);
}
template <class T>
void append(Tensors& out, const std::vector<T>& values) {
  for (const auto& value : values) append_tensors(out, value);
}
template <class T, size_t n>
void append(Tensors& out, const std::array<T, n>& values) {
  for (const auto& value : values) append_tensors(out, value);
}
template <class K, class T>
void append(Tensors& out, const std::map<K, T>& values) {
  for (const auto& [key, value] : values) append_tensors(out, value);
}
template <class A, class B>
void append(Tensors& out, const std::pair<A, B>& both) {
  append_tensors(out, both.first);
  append_tensors(out, both.second);
}
template <class... Ts>
void append(Tensors& out, const std::tuple<Ts...>& values) {
  std::apply([&](const auto&... value) { (append_tensors(out, value), ...); }, values);
}

}  // namespace detail

template <class T>
void append_tensors(Tensors& out, const T& value) {
  if constexpr (requires { value.tensors(); }) {
    append_tensors(out, value.tensors());
  } else if constexpr (requires { detail::append(out, value); }) {
    detail::append(out, value);
  }
}

}  // namespace lathe::nn
