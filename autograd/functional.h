// Derivatives of functions: vjp, jvp, jacobian, hessian, hvp.
//   const Tensors in{x, y};
//   const auto f = [](const Tensors& t) { return (t[0] * t[1].exp()).sum(); };
//   const std::vector<Tensors> h = hessian(f, in);  // h[0][1]: d2f / dx dy
//
// Note [Derivatives of functions]
// All these functions call f on tensors of their own that share the memory of the inputs, and
// change no grad(). The inputs are floating. If a result does not depend on an input, the
// derivative is zeros. With create_graph the results can be differentiated, also with respect to
// the inputs and to the tensors that f refers to; without it they are constants. f is recorded even
// under NoGrad.
#pragma once

#include <vector>

#include "lathe/autograd/tensors_function.h"
#include "lathe/core/tensor.h"

namespace lathe {

struct DerivativeOptions {
  bool create_graph = false;  // true: the results have gradients themselves
};

/// A result of vjp, jvp or hvp: f(inputs), and a product for each output (jvp) or input (vjp, hvp).
struct FunctionAndProducts {
  Tensors outputs;
  Tensors products;
};

/// Computes v * J, where J is the Jacobian of f: the gradients of the sum of all v[k] *
/// f(inputs)[k] with respect to the inputs. v may be empty if f returns one tensor of one element:
/// then v is 1.
/// throws: ShapeError, DTypeError if v does not match the outputs; DTypeError for an input that is
/// not floating; ValueError if f returns an undefined tensor.
LATHE_API FunctionAndProducts vjp(const TensorsFunction& f, const Tensors& inputs,
                                  const Tensors& v = {}, const DerivativeOptions& options = {});

/// Computes J * v, where J is the Jacobian of f: how the outputs change when the inputs move along
/// v. There is no forward mode: jvp() differentiates v * J with respect to v, so the ops of f need
/// second derivatives.
/// throws: ShapeError, DTypeError if v does not match the inputs; DTypeError for an input that is
/// not floating; ValueError if f returns an undefined tensor.
LATHE_API FunctionAndProducts jvp(const TensorsFunction& f, const Tensors& inputs, const Tensors& v,
                                  const DerivativeOptions& options = {});

/// Computes the Jacobian: J[k][i] is d output k / d input i. Its shape is that of output k followed
/// by that of input i. Makes one backward pass per element of the outputs.
/// throws: DTypeError for an input that is not floating; ValueError if f returns an undefined
/// tensor; ShapeError if the shape of a J[k][i] has too many dimensions.
LATHE_API std::vector<Tensors> jacobian(const TensorsFunction& f, const Tensors& inputs,
                                        const DerivativeOptions& options = {});

/// Computes the Hessian: H[i][j] is d2f / d input i d input j. Its shape is that of input i
/// followed by that of input j. f returns one tensor of one element. Makes one backward pass per
/// element of the inputs.
/// throws: DTypeError for an input that is not floating; ValueError if f returns an undefined
/// tensor; ShapeError if f does not return one tensor of one element, or if the shape of an H[i][j]
/// has too many dimensions.
LATHE_API std::vector<Tensors> hessian(const TensorsFunction& f, const Tensors& inputs,
                                       const DerivativeOptions& options = {});

/// Computes H * v, where H is the Hessian of f, without computing H. The cost is one backward pass
/// more than for the gradient. f returns one tensor of one element.
/// throws: DTypeError for an input that is not floating; ValueError if f returns an undefined
/// tensor; ShapeError if f does not return one tensor of one element; ShapeError, DTypeError if v
/// does not match the inputs.
LATHE_API FunctionAndProducts hvp(const TensorsFunction& f, const Tensors& inputs, const Tensors& v,
                                  const DerivativeOptions& options = {});

}  // namespace lathe
