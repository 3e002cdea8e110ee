// Is an analytic gradient right? Compares it with central differences in double precision.
#pragma once

#include <functional>
#include <string>

#include "lathe/core/tensor.h"

namespace lathe {

struct GradcheckOptions {
  double step = 1e-6;  // f is evaluated at x ± step
  double atol = 1e-5;  // |analytic - numeric| <= atol + rtol * |numeric|
  double rtol = 1e-3;
};

struct GradReport {
  bool ok = true;
  std::string text;  // of the worst element: "input 1, element [0,2]: analytic 3.1, numeric -3.1
                     // …"; empty if ok
  explicit operator bool() const { return ok; }
};

/// Checks d f / d inputs for every input that is floating; `f` gets the inputs and returns one
/// tensor of any shape. The outputs are weighed with fixed different numbers, so that errors do not
/// cancel. The step is taken on host copies in f64, and the backward pass is run twice: a gradient
/// that differs between the runs fails too.
///   inputs  f64; others are passed through unchecked.   throws: DTypeError for f32 or half inputs.
/// `f` should not be linear in what is checked, or a wrong dy can hide: square its result.
LATHE_API GradReport gradcheck(const std::function<Tensor(const Tensors&)>& f,
                               const Tensors& inputs, const GradcheckOptions& options = {});

/// Checks the gradient of the gradient: gradcheck of (inputs, dy) → d f / d inputs. First it
/// compares the gradients with create_graph, which that is about, with those without: they may
/// differ by 1e-12 of the largest.
LATHE_API GradReport gradgradcheck(const std::function<Tensor(const Tensors&)>& f,
                                   const Tensors& inputs, const GradcheckOptions& options = {});

}  // namespace lathe
