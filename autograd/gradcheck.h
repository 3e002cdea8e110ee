// Tests whether an analytic gradient is right: compares it with central differences in f64.
#pragma once

#include <functional>
#include <string>

#include "lathe/core/tensor.h"

namespace lathe {

struct GradcheckOptions {
  double step = 1e-6;  // f is evaluated at x ± step
  double atol = 1e-5;  // |analytic - numeric| <= atol + rtol * |numeric|
  double rtol = 1e-3;
  // true: checks the derivative along one direction per input instead of the derivative by each
  // element. This takes two calls of f per input of any size. The report then names no element.
  bool fast_mode = false;
};

struct GradReport {
  bool ok = true;
  // The worst element, empty if ok: "input 1, element [0,2]: analytic 3.1, numeric -3.1 (…)".
  std::string text;
  explicit operator bool() const { return ok; }
};

/// Compares the gradient of f for every floating input with finite differences. `f` gets copies of
/// the inputs and returns one tensor of any shape. gradcheck() sums the elements of this result
/// with fixed weights that all differ, so that errors do not cancel. A copy has its input's
/// strides, unless elements of the input overlap. The backward pass runs twice; the check fails if
/// the two runs give different gradients.
///   inputs  f64 on any device. Integer and undefined tensors are passed to `f` unchecked.
/// Let `f` return the op's result or its square, and not its sum: a sum gives all elements the same
/// dy, so an op that confuses the elements of dy would pass.
/// throws: DTypeError for f32 or half inputs.
LATHE_API GradReport gradcheck(const std::function<Tensor(const Tensors&)>& f,
                               const Tensors& inputs, const GradcheckOptions& options = {});

/// Checks second derivatives: runs gradcheck() on the function (inputs, dy) → d f / d inputs.
/// Before that, it compares the gradients with create_graph to those without, because an op may
/// have separate code for the two cases. These two may differ by at most 1e-12 * (largest gradient
/// + 1).
LATHE_API GradReport gradgradcheck(const std::function<Tensor(const Tensors&)>& f,
                                   const Tensors& inputs, const GradcheckOptions& options = {});

}  // namespace lathe
