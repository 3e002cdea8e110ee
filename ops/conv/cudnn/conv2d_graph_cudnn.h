// A convolution as an operation graph of cuDNN, and what cuDNN's heuristics suggest for it. For
// *_cudnn.cpp files only. No GPU is needed.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "lathe/core/gpu/cudnn_config.h"
#include "lathe/ops/conv/search/conv_engines.h"
#include "lathe/ops/conv/search/conv_key.h"

namespace lathe::cuda {

enum Conv2dUid : int64_t { kUidX = 1, kUidW, kUidY, kUidBias, kUidSum, kUidsOfFusions };

/// The graph of the key's convolution and of what is fused with it (conv2d_patterns_cudnn.h),
/// finalized. Without a handle it can be inspected but not computed. Its tensors have the uids
/// above.
/// throws: ShapeError with cuDNN's reason.
cudnn::OperationGraph conv2d_graph(const ConvKey& key, cudnnHandle_t handle = nullptr);

/// Configurations by what the search calls them.
using Conv2dConfigs = std::map<ConvEngine, cudnn::EngineConfig>;

/// What the heuristic suggests for the graph, as the search sees it; `found` gets the
/// configurations that it does not have yet. For the current device, or for `gpu`
/// (cudnn_described.h).
/// throws: OutOfMemoryError.
std::vector<ConvEngineInfo> conv2d_suggested(const cudnn::OperationGraph& graph,
                                             ConvHeuristic heuristic, Conv2dConfigs& found,
                                             const cudnn::Descriptor* gpu = nullptr);

}  // namespace lathe::cuda
