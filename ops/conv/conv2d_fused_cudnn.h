// Running a fused pattern of cuDNN (conv2d_fused_graph_cudnn.h), or the same without fusion where
// that is faster or nothing else is possible. For *_cudnn.cpp files only.
#pragma once

#include "lathe/core/function_ref.h"
#include "lathe/ops/conv/conv2d_cudnn.h"

namespace lathe::cuda {

/// What the search calls the way without fusion: a candidate beside cuDNN's engines.
inline constexpr int64_t kSplitEngine = -1;

/// Computes what operands.fused and the pass's output hold, by the engine that the search chooses.
/// Returns false if that was `split`, whose results are where it left them.
/// split  computes the same without fusion. It is a candidate like the others, and the first where
///        nothing is timed: nothing says yet that a fused kernel is faster. In mode kBenchmark it
///        is timed on the call's own tensors, which favours it for small layers.
/// timed  what is timed in the place of `split`: it with what has to follow it, if a fused kernel
///        saves that too
/// throws: what `split` throws, if that is the last candidate.
bool conv2d_run_fused(const ConvKey& key, const Conv2dOperands& operands, FunctionRef<void()> split,
                      FunctionRef<void()> timed);
inline bool conv2d_run_fused(const ConvKey& key, const Conv2dOperands& operands,
                             FunctionRef<void()> split) {
  return conv2d_run_fused(key, operands, split, split);
}

/// False where the settings alone say that nothing is fused: only in mode kBenchmark is it known
/// what is faster.
bool conv2d_may_fuse();

/// True for a tensor that cuDNN's fused engines can read: f16, dense in NHWC, whole groups of 8
/// channels, well aligned, not empty.
bool conv2d_suits_fused(const Tensor& t);

/// True if conv2d_run_fused() would take one of cuDNN's engines, or would have to try them first.
bool conv2d_takes_fused(const ConvKey& key, Device device);

}  // namespace lathe::cuda
