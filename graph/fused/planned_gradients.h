// The gradients of pointwise programs by a plan (pointwise_gradient.h): on the CPU the plan runs,
// on a GPU it is a kernel.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lathe/core/device.h"
#include "lathe/core/tensor.h"
#include "lathe/graph/fused/pointwise_plan.h"
#include "lathe/graph/fused/pointwise_run.h"

namespace lathe::jit {

/// The gradients of `inputs`, undefined where they are zero or not `wanted`, with the bits of the
/// ops; nothing if there is no plan, or on a GPU no kernel. `gpu`: where the inputs are; none: on
/// the CPU. Gradients that are only passed on need no kernel. On a GPU a `dy` that is expanded
/// along some dimensions, or has gaps, is copied first; in another order there is no kernel.
/// throws: CudaError, OutOfMemoryError.
std::optional<Tensors> planned_gradients(const PointwiseProgram& program, const Tensors& inputs,
                                         const Tensors& dy, const std::vector<bool>& wanted,
                                         std::optional<Device> gpu);

/// Why planned_gradients() will have no kernel for inputs of these forms; "" if it has one, which
/// is then loaded. `added_up`: the gradient of the last result will be one number. The others are
/// taken to be full: a number there, or a result that is not used, may have no kernel all the same.
/// Known before the forward pass: a backward pass without a kernel runs the forward pass again, op
/// by op, which costs more than ops that save what they need.
std::string why_no_gradient_kernel(const PointwiseProgram& program, const InputForms& forms,
                                   const Tensors& inputs, Device gpu, bool added_up);

}  // namespace lathe::jit
