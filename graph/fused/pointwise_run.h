// Pointwise ops of one shape, run together: each piece goes through the kernels of all ops, so that
// what is between them stays in the processor's cache.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lathe/core/tensor.h"
#include "lathe/graph/graph.h"

namespace lathe::jit {

struct Op;  // op_table.h

/// Calls of pointwise ops whose values all have one shape.
struct PointwiseProgram {
  struct Step {
    const Op* op;
    std::vector<int> operands;  // below `inputs` an input, else a step; -1: undefined
    std::vector<Attribute> attributes;
    DType dtype;    // of the value
    int last = -1;  // the last step that reads the value; -1 if none does
  };
  Shape shape;  // of every step's value; inputs are broadcast to it
  int inputs = 0;
  std::vector<Step> steps;
  std::vector<int> results;  // steps
  /// The sum or the mean of all elements of a step's value, f32 or f64: one more result, behind the
  /// others, of shape []. Nothing else reads that value.
  struct Total {
    int step = -1;  // none
    bool mean = false;
  };
  Total total = {};
};

/// The fewest elements that are worth it on a CPU.
constexpr int64_t kLeastFused = 32768;

/// The results, with the bits of the same calls one after another, and their strides. Where each
/// input is full or one number and each op has a kernel of its own, these are called by a plan
/// (pointwise_plan.h). Otherwise, and where something watches ops (profiler, debug scopes, a
/// trace), the calls are made one after another.
/// A total is added up by the plan in the order of the op; without a plan the op does it.
/// On a GPU a plan is one kernel that is compiled at run time (group_kernel.h); without it the
/// calls are made one after another. `way`, if given, is then how it ran: "one kernel for sm_90",
/// or "one by one: " and why. Where gradients are recorded, a group is a kernel only if its
/// backward pass with full gradients is one, too, or passes gradients on.
/// grad: the inputs, twice differentiable. A plan computes the gradients (pointwise_gradient.h), or
/// the ops do.
/// throws: what the ops throw; ShapeError, DTypeError if a value is not of `shape` and `dtype`.
LATHE_API Tensors run_pointwise(const std::shared_ptr<const PointwiseProgram>& program,
                                const Tensors& inputs, std::string* way = nullptr);

/// fused_kernels(): true if groups become kernels on GPUs. This is the default, unless the
/// environment says LATHE_FUSED_KERNELS=0. set_fused_kernels() changes it; kernels that were loaded
/// stay loaded. Any thread may call both functions.
LATHE_API bool fused_kernels();
LATHE_API void set_fused_kernels(bool on);

/// A group of more ops than this is no kernel: NVRTC's time grows faster than the text, and beyond
/// a GPU's registers values go through its memory.
constexpr int kMostKernelSteps = 64;

/// The results of the calls one after another, where all values have `shape`. Records gradients.
Tensors call_in_turn(const PointwiseProgram& program, const Tensors& inputs, const Shape& shape);

}  // namespace lathe::jit
