// Running a fused pattern of cuDNN (conv2d_patterns_cudnn.h), or the split engine: the same without
// fusion, by several kernels, where that is faster or nothing else is possible. For *_cudnn.cpp
// files only.
#pragma once

#include <optional>

#include "lathe/core/function_ref.h"
#include "lathe/ops/conv/cudnn/conv2d_engines_cudnn.h"

namespace lathe::cuda {

/// The operand with this uid, of `operands.fused`.
const Tensor& fused_operand(const Conv2dOperands& operands, int64_t uid);

/// The split engine of one call, and what is timed. Each function is given the tensors to work on:
/// those of the call, or copies of them. What the operands lack (sizes, options) is the call's own.
struct SplitEngine {
  using Run = FunctionRef<void(const Conv2dOperands&)>;
  Run run;          // computes the same without fusion
  Run timed_run;    // the same, and what a fused kernel saves behind it; it keeps no tensors
  Run after_fused;  // what has to follow a fused kernel until it has computed as much
};

/// Computes what operands.fused and the pass's output hold, by the engine that the search chooses.
/// Returns false if that was `split`, whose results are where it left them.
/// The search treats `split` as any engine, and as the first where nothing is timed: nothing says
/// yet that a fused kernel is faster. In mode kBenchmark all are timed as graphs
/// (conv2d_time_graph) on the same copies of the tensors, and again among the finalists.
/// throws: what `split` throws, if that is the last engine.
bool conv2d_fuse_or_split(const ConvKey& key, const Conv2dOperands& operands,
                          const SplitEngine& split);

/// What the search measured, in milliseconds.
struct ConvMs {
  double chosen = 0;
  std::optional<double> split;  // of a fused key
};
/// Nothing if the key is unknown or what was chosen was not timed.
std::optional<ConvMs> conv2d_measured(const ConvKey& key);

/// False where the settings alone say that nothing is fused: only in mode kBenchmark is it known
/// what is faster.
bool conv2d_may_fuse();

/// True for a tensor that cuDNN's fused engines can read: f16, dense in NHWC, whole groups of 8
/// channels, well aligned, not empty.
bool conv2d_suits_fused(const Tensor& t);

/// True if conv2d_fuse_or_split() would take one of cuDNN's engines, or would have to try them
/// first.
bool conv2d_takes_fused(const ConvKey& key, Device device);

}  // namespace lathe::cuda
