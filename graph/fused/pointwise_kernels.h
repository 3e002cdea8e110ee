// The kernels of pointwise ops on the CPU, by op and dtype: what a plan of a group calls in place
// of the ops (pointwise_plan.h).
#pragma once

#include <optional>
#include <span>
#include <string>

#include "lathe/core/row_kernel.h"
#include "lathe/graph/fused/pointwise_run.h"

namespace lathe::jit {

/// A kernel, its functor in the text of a GPU's kernel, and in which order both take the step's
/// operands.
struct PointwiseKernel {
  RowKernel kernel = {};
  std::string code = {};     // "Mul{}", of lathe::math; "" for casts and where
  int count = 1;             // of operands
  int order[3] = {0, 1, 2};  // the kernel's k-th operand is the step's order[k]-th
};

/// What computes a step of these operands with the bits of its op; nothing for ops that are made of
/// several, and where the op would convert an operand first. `dtypes` are those of the operands,
/// and of 0-d numbers the dtype that the op casts them to.
std::optional<PointwiseKernel> kernel_of(const PointwiseProgram::Step& step,
                                         std::span<const DType> dtypes);

}  // namespace lathe::jit
