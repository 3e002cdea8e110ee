// A fused group's plan as the CUDA C++ text of one kernel. kernel_compiler.h compiles it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lathe/graph/fused/pointwise_plan.h"

namespace lathe::jit {

/// The kernel's parameters: int64_t n, int64_t packets (the first elements are taken `packet` at a
/// time by accesses of up to 16 bytes, which needs pointers aligned to `packet` elements), then a
/// pointer for each of `inputs`, a cuda::Number for each of `numbers`, a pointer for each of
/// `results`. Any number of blocks and threads computes all n elements.
struct KernelSource {
  struct Number {
    int input;    // of the plan
    DType dtype;  // what it is cast to
  };
  std::string text;
  int packet = 1;
  std::vector<int> inputs;  // of the plan, whose elements are read
  std::vector<Number> numbers;
  std::vector<DType> results;
};

/// The kernel `name` computes the plan's results with the bits of the ops' own kernels: each value
/// between two ops is rounded to its dtype. A NaN of f64 may be another NaN. Nothing for a plan
/// with a total, or with integers.
LATHE_API std::optional<KernelSource> kernel_source(const PointwisePlan& plan,
                                                    const std::string& name);

}  // namespace lathe::jit
