// TensorsFunction: a user's function of tensors, whether it returns one tensor or several.
#pragma once

#include <concepts>
#include <functional>
#include <type_traits>
#include <utility>

#include "lathe/core/tensor.h"

namespace lathe {

/// Any callable from const Tensors& to Tensor or Tensors.
class TensorsFunction {
 public:
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, TensorsFunction>) TensorsFunction(F f) {
    using Result = std::invoke_result_t<F&, const Tensors&>;
    if constexpr (std::derived_from<std::remove_cvref_t<Result>, Tensor>) {
      call_ = [f = std::move(f)](const Tensors& in) mutable { return Tensors{f(in)}; };
    } else {
      call_ = std::move(f);
    }
  }

  Tensors operator()(const Tensors& inputs) const { return call_(inputs); }

 private:
  std::function<Tensors(const Tensors&)> call_;
};

}  // namespace lathe
