// functional_call: a module as a function of its parameters.
#pragma once

#include "lathe/core/tensor.h"
#include "lathe/nn/module.h"

namespace lathe::nn {

/// module(x), with other tensors in the place of parameters and buffers.
///   const Tensor y = nn::functional_call(net, {{"fc.weight", w}}, x);
///   tensors  by the names of named_parameters() and named_buffers(); those not named stay.
/// Gradients flow to these tensors, not to the parameters that they stand for. What the module
/// writes in place (running statistics) it writes into these tensors. Afterwards, and also if the
/// call throws, the module is as it was. A checkpoint() in the module gets these tensors once more
/// in the backward pass. No other thread may use the module in any of these calls.
/// throws: ValueError for an undefined tensor, a name that the module does not have or that comes
/// twice, and for a parameter in the place of another one; ShapeError, DeviceError for a tensor
/// unlike the one that it stands for; what the call throws.
LATHE_API Tensor functional_call(Module& module, const Module::Named<Tensor>& tensors,
                                 const Tensor& x);

}  // namespace lathe::nn
