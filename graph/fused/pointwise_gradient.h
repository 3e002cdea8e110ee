// The gradient of a pointwise program as a pointwise program of its own, found by tracing the
// backward pass of the ops once: so it has their formulas, their order of additions and their bits.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "lathe/core/tensor.h"
#include "lathe/graph/fused/pointwise_plan.h"
#include "lathe/graph/fused/pointwise_run.h"

namespace lathe::jit {

class GroupKernel;  // group_kernel.h

struct PointwiseGradient {
  PointwisePlan plan;  // of the program's inputs, the gradients of its results, and the constants
  std::shared_ptr<const GroupKernel> kernel;  // of the plan, for GPUs
  Tensors constants;                          // on the CPU
  // By input of the program: nothing if its gradient is not wanted or zero, below 0 the result
  // -1 - n of the plan, else the plan's input with this number, which is the gradient itself.
  std::vector<std::optional<int>> from;
};

/// The gradient for inputs and `dys` of these forms. Null if the gradient of an input that is
/// broadcast is wanted, or if the backward pass calls an op without a kernel of its own. Kept for
/// the next call: the most recent 256 programs.
LATHE_API std::shared_ptr<const PointwiseGradient> gradient_of(const PointwiseProgram& program,
                                                               const std::vector<bool>& wanted,
                                                               const InputForms& inputs,
                                                               const InputForms& dys);

}  // namespace lathe::jit
