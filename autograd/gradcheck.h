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
  // true: the derivative along one direction per input, whose numbers all differ, instead of that
  // by each element: two calls of f per input, however large. Names no element.
  bool fast_mode = false;
};

struct GradReport {
  bool ok = true;
  // The worst element, empty if ok: "input 1, element [0,2]: analytic 3.1, numeric -3.1 (…)".
  std::string text;
  explicit operator bool() const { return ok; }
};

/// Checks d f / d input for every floating input. `f` gets the inputs and returns one tensor of any
/// shape. Its elements are summed with fixed weights that all differ, so that errors do not cancel.
/// Works on copies of the inputs, in their strides unless elements overlap. The backward pass runs
/// twice: gradients that differ between the runs fail too.
///   inputs  f64 on any device; integers and undefined tensors are passed through unchecked.
/// throws: DTypeError for f32 or half inputs.
/// `f` should not be linear in what is checked, or a wrong dy can hide: square its result.
LATHE_API GradReport gradcheck(const std::function<Tensor(const Tensors&)>& f,
                               const Tensors& inputs, const GradcheckOptions& options = {});

/// Checks the gradient of the gradient: gradcheck of (inputs, dy) → d f / d inputs. Before that it
/// compares the gradients computed with and without create_graph, for which an op may have separate
/// code. They may differ by 1e-12 * (largest gradient + 1).
LATHE_API GradReport gradgradcheck(const std::function<Tensor(const Tensors&)>& f,
                                   const Tensors& inputs, const GradcheckOptions& options = {});

}  // namespace lathe
