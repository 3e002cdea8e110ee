// functional_call: a module as a function of its parameters.
#pragma once

#include "lathe/core/tensor.h"
#include "lathe/nn/module.h"

namespace lathe::nn {

/// Calls module(x) with other tensors in place of parameters and buffers.
///   const Tensor y = nn::functional_call(net, {{"fc.weight", w}}, x);
///   tensors  under names of named_parameters() and named_buffers(). For all other names the module
///            uses its own tensors
/// Gradients flow to `tensors` and not to the parameters that they replace. In-place writes of the
/// module (running statistics) go to `tensors`, too. After the call, also if it throws, the module
/// has its own tensors again. A checkpoint() in the module uses `tensors` in the backward pass,
/// too. No other thread may use the module during the call and that backward pass.
/// throws: what the call throws; ShapeError, DeviceError for a tensor whose shape or device differs
/// from the replaced one's; ValueError for one of these:
///   - an undefined tensor
///   - a name that the module does not have, or that comes twice
///   - a parameter of this module, given in place of another of its parameters
LATHE_API Tensor functional_call(Module& module, const Module::Named<Tensor>& tensors,
                                 const Tensor& x);

}  // namespace lathe::nn
