// CustomFunction: an op with a gradient that the user writes.
//   struct Cube : CustomFunction<Cube> {
//     struct Context : FunctionContext {
//       double scale = 1;  // values of its own, from forward to backward
//     };
//     static Tensor forward(Context& context, const Tensor& x, double scale) {
//       context.scale = scale;
//       context.save_for_backward({x});
//       return x * x * x * scale;
//     }
//     static Tensors backward(Context& context, const Tensors& dy) {
//       const Tensor x = context.saved_tensors()[0];
//       return {dy[0] * x * x * (3 * context.scale)};
//     }
//   };
//   const Tensor y = Cube::apply(x, 2.0);
#pragma once

#include <concepts>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "lathe/autograd/grad_mode.h"
#include "lathe/autograd/saved.h"
#include "lathe/core/tensor.h"
#include "lathe/core/type_name.h"

namespace lathe {

namespace autograd {
class CustomCall;
class CustomNode;
}  // namespace autograd

/// Carries tensors and flags from forward to backward.
class LATHE_API FunctionContext {
 public:
  FunctionContext() = default;
  virtual ~FunctionContext() = default;
  FunctionContext(const FunctionContext&) = delete;
  FunctionContext& operator=(const FunctionContext&) = delete;

  /// Call it in a custom function's forward. Saves these tensors for backward; a second call
  /// replaces the tensors of the first one. A tensor may be undefined. Second derivatives flow
  /// through a saved tensor that is an input or output of the function. Any other saved tensor
  /// counts as a constant in second derivatives. To avoid this for a tensor that forward computes
  /// from the inputs, return it from forward as a further output.
  void save_for_backward(const Tensors& tensors) { unsaved_ = tensors; }
  /// Call it in a custom function's backward. Returns the tensors that forward gave to
  /// save_for_backward(), in order.
  /// throws: StateError if one of these tensors was modified in place after forward.
  Tensors saved_tensors() const;

  /// True if a custom function's backward should compute the gradient of input i. The inputs are
  /// the tensors among the arguments of apply(), in order: each Tensor or nn::Parameter, each
  /// std::optional<Tensor>, and each element of a container of tensors.
  bool needs_input_grad(size_t i) const { return i < needs_.size() && needs_[i]; }

  /// Call it in forward. Declares that `outputs` get no gradient, though they are floating.
  void mark_non_differentiable(const Tensors& outputs) { constant_ = outputs; }

  /// Call it in a custom function's forward. Chooses the gradient (dy) that backward gets for an
  /// output that nothing used: zeros (`on` is true, the default) or an undefined tensor.
  void set_materialize_zeros(bool on) { materialize_zeros_ = on; }

 private:
  friend class autograd::CustomCall;
  friend class autograd::CustomNode;
  using Entry = std::variant<autograd::Saved, autograd::SavedOutput>;

  Tensors unsaved_, constant_;  // empty once forward is over
  std::vector<Entry> saved_;
  std::vector<bool> needs_;
  bool materialize_zeros_ = true;
};

namespace autograd {

/// The library's part of one call of a custom function.
class LATHE_API CustomCall {
 public:
  using Backward = Tensors (*)(FunctionContext& context, const Tensors& dy);

  /// Call it before forward.
  CustomCall(const char* name, FunctionContext& context, Tensors inputs);

  /// Makes the outputs the results of the op. → the outputs
  Tensors record(Tensors outputs, std::unique_ptr<FunctionContext> context, Backward backward);

 private:
  static bool is_constant(const FunctionContext& context, const Tensor& y);
  void check(const FunctionContext& context, const Tensors& outputs) const;
  static void save(FunctionContext& context, const Tensors& made, const Tensors& outputs,
                   const Tensors& ys);
  void separate(Tensors& outputs) const;
  void show_watchers(const Tensors& outputs) const;

  const char* name_;
  Tensors inputs_;
  std::vector<uint32_t> versions_;  // of the inputs
  bool recorded_;
};

/// A Tensor, or what derives from it: nn::Parameter.
template <class T>
concept TensorLike = std::derived_from<std::remove_cvref_t<T>, Tensor>;

/// Appends the tensors of `argument`: the tensor itself, the elements of a container, or the tensor
/// in an optional (an undefined tensor if the optional is empty).
template <class T>
void append_tensors(Tensors& out, const T& argument) {
  if constexpr (TensorLike<T>) {
    out.push_back(argument);
  } else if constexpr (requires {
                         { *argument.begin() } -> TensorLike;
                       }) {
    out.insert(out.end(), argument.begin(), argument.end());
  } else if constexpr (requires {
                         { argument.value() } -> TensorLike;
                       }) {
    out.push_back(argument.has_value() ? argument.value() : Tensor());
  }
}

}  // namespace autograd

/// Base of a struct with two static functions:
///   forward(Context&, arguments…)          → Tensor or Tensors. Runs with NoGrad.
///   backward(Context&, const Tensors& dy)  → one gradient per input, Tensors; or Tensor if there
///                                            is one input. dy holds one gradient per output.
/// Context is FunctionContext, unless the struct declares a type Context of its own, derived from
/// FunctionContext.
/// Backward may return an undefined tensor for an input that needs no gradient, or whose gradient
/// is zero. Under create_graph the ops in backward are recorded, which gives second derivatives.
/// If a call is recorded, an output that shares memory with an input is copied.
/// Arguments may be tensors, optional tensors and containers of tensors. Tensors inside any other
/// argument (a struct, the values of a map) count as constants.
template <class Derived>
struct CustomFunction {
  using Context = FunctionContext;

  /// Calls forward(Context&, arguments…). Records the call if a gradient of an input is wanted.
  /// throws: StateError if forward writes an input that needs a gradient; ValueError for an
  /// undefined output. In the backward pass: ValueError if backward returns another number of
  /// gradients than there are inputs; ShapeError, DTypeError, DeviceError if a gradient does not
  /// match its input.
  template <class... Args>
  static auto apply(Args&&... arguments) {
    static const std::string& name = *new std::string(type_name(typeid(Derived)));  // nodes use it
    auto context = std::make_unique<typename Derived::Context>();
    typename Derived::Context& kept = *context;
    Tensors inputs;
    (autograd::append_tensors(inputs, arguments), ...);
    autograd::CustomCall call(name.c_str(), kept, std::move(inputs));
    auto result = [&] {
      const NoGrad off;
      return Derived::forward(kept, std::forward<Args>(arguments)...);
    }();
    if constexpr (autograd::TensorLike<decltype(result)>) {
      Tensors outputs;
      outputs.push_back(std::move(result));
      return Tensor(call.record(std::move(outputs), std::move(context), run_backward).front());
    } else {
      return call.record(std::move(result), std::move(context), run_backward);
    }
  }

 private:
  static Tensors run_backward(FunctionContext& context, const Tensors& dy) {
    return Tensors{Derived::backward(static_cast<typename Derived::Context&>(context), dy)};
  }
};

}  // namespace lathe
