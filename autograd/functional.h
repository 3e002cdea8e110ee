// Derivatives of functions: vjp, jvp, jacobian, hessian, hvp.
//   const Tensors in{x, y};
//   const auto f = [](const Tensors& t) { return (t[0] * t[1].exp()).sum(); };
//   const std::vector<Tensors> h = hessian(f, in);  // h[0][1]: d2f / dx dy
//
// Note [Derivatives of functions]
// All of them call f on tensors of their own that show the inputs' values, and change no grad().
// The inputs are floating. Where a result does not depend on an input, its derivative is zeros.
// With create_graph the results can be differentiated, also with respect to the inputs and to what
// f refers to; without it they are constants. f is recorded even under NoGrad.
#pragma once

#include <vector>

#include "lathe/autograd/tensors_function.h"
#include "lathe/core/tensor.h"

namespace lathe {

struct DerivativeOptions {
  bool create_graph = false;  // true: the results have gradients themselves
};

/// f(inputs), and a product for each output (jvp) or for each input (vjp, hvp).
struct FunctionAndProducts {
  Tensors outputs;
  Tensors products;
};

/// v * J: the gradients of the sum of all v[k] * f(inputs)[k]. An empty v means 1, for a single
/// output of one element.
/// throws: ShapeError, DTypeError if v does not match the outputs; DTypeError for an input that is
/// not floating; ValueError if f returns an undefined tensor.
LATHE_API FunctionAndProducts vjp(const TensorsFunction& f, const Tensors& inputs,
                                  const Tensors& v = {}, const DerivativeOptions& options = {});

/// J * v: how the outputs change when the inputs move along v. There is no forward mode: this
/// differentiates v * J with respect to v, so f's ops must have gradients of gradients.
/// throws: as vjp, for v that does not match the inputs.
LATHE_API FunctionAndProducts jvp(const TensorsFunction& f, const Tensors& inputs, const Tensors& v,
                                  const DerivativeOptions& options = {});

/// J[k][i]: d output k / d input i, with the shape of the output followed by that of the input.
/// Makes one backward pass per element of the outputs.
/// throws: as vjp; ShapeError if that shape has too many dimensions.
LATHE_API std::vector<Tensors> jacobian(const TensorsFunction& f, const Tensors& inputs,
                                        const DerivativeOptions& options = {});

/// H[i][j]: d2f / d input i d input j, with the shape of input i followed by that of input j. f
/// returns one tensor of one element. Makes one backward pass per element of the inputs.
/// throws: as jacobian; ShapeError if f returns anything else.
LATHE_API std::vector<Tensors> hessian(const TensorsFunction& f, const Tensors& inputs,
                                       const DerivativeOptions& options = {});

/// H * v, without H: one more backward pass than the gradient. f as for hessian.
/// throws: as hessian; ShapeError, DTypeError if v does not match the inputs.
LATHE_API FunctionAndProducts hvp(const TensorsFunction& f, const Tensors& inputs, const Tensors& v,
                                  const DerivativeOptions& options = {});

}  // namespace lathe
