// A group of pointwise ops as one kernel of a GPU: written (kernel_source.h), compiled
// (kernel_compiler.h), loaded and launched.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "lathe/core/device.h"
#include "lathe/core/gpu/loaded_kernel.h"
#include "lathe/core/tensor.h"
#include "lathe/graph/fused/kernel_source.h"
#include "lathe/graph/fused/pointwise_plan.h"

namespace lathe::jit {

/// A kernel in a GPU's memory, or why there is none.
struct LoadedGroup {
  std::optional<cuda::LoadedKernel> kernel = {};
  std::string target = {};  // "sm_90"
  std::string why_not = {};
  bool is_final = true;  // false: it may be there another time
};

/// Several threads may use one at the same time.
class GroupKernel {
 public:
  explicit GroupKernel(const PointwisePlan& plan);

  /// The kernel on a GPU. The first call for a text and a GPU compiles and loads it, which takes
  /// tenths of a second; other texts do not wait for it. If NVRTC is absent or fails, the reason is
  /// kept, and nothing is tried again. A failure's whole message is a warning, once. If memory was
  /// short, the kernel is tried again after 1, 3, 7, … more calls. A process loads at most 512
  /// kernels. While a CUDA graph is captured nothing is loaded: the ops then take the kernel's
  /// place there.
  const LoadedGroup& on(Device gpu) const;

  /// What PointwisePlan::run() computes, with the same forms of inputs, by a kernel that on() gave
  /// for their GPU. Numbers may be on the CPU.
  /// throws: CudaError, OutOfMemoryError.
  Tensors run(const LoadedGroup& loaded, const Tensors& inputs) const;

 private:
  std::optional<KernelSource> source_;
  std::vector<int> results_;
  mutable std::mutex mutex_;
  mutable std::map<int, const LoadedGroup*> loaded_;  // by GPU; guarded
};

/// The kernel of a program for inputs of these forms; null if it has no plan. Kept for the next
/// call: those of the most recent 256 programs.
std::shared_ptr<const GroupKernel> group_kernel(const PointwiseProgram& program,
                                                const InputForms& inputs);

}  // namespace lathe::jit
