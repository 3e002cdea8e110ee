// A convolution as an operation graph of cuDNN: one operation per pass, and the sum with the bias
// after the forward pass. Contracts: conv2d_graph_cudnn.h.
#include "lathe/ops/conv/cudnn/conv2d_graph_cudnn.h"

#include "lathe/ops/conv/cudnn/conv2d_patterns_cudnn.h"

namespace lathe::cuda {

using cudnn::Descriptor;
using cudnn::OperationGraph;

namespace {

const Descriptor& add_tensor(OperationGraph& graph, Conv2dUid uid, const ConvTensor& t) {
  return graph.tensor({.uid = uid,
                       .dtype = t.dtype,
                       .dims = t.dims,
                       .strides = t.strides,
                       .alignment = t.alignment});
}

/// y = conv(x, w) + bias, if the key has one. The sum stays in the dtype of sums before it.
void add_forward(OperationGraph& graph, const ConvKey& key, const cudnn::ConvolutionSpec& conv,
                 const Descriptor& x, const Descriptor& w, const Descriptor& y) {
  if (!key.bias.exists()) return graph.convolution_forward(conv, x, w, y);
  const Descriptor& sum = graph.tensor({.uid = kUidSum,
                                        .dtype = key.compute,
                                        .dims = key.y.dims,
                                        .strides = key.y.strides,
                                        .is_virtual = true});
  graph.convolution_forward(conv, x, w, sum);
  graph.add(sum, add_tensor(graph, kUidBias, key.bias), y);
}

ConvEngineInfo info_of(const cudnn::EngineConfig& config) {
  return {.engine = {config.engine, config.knobs},
          .workspace_bytes = config.workspace_bytes,
          .deterministic = !config.has(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC),
          .tensor_cores = config.has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE),
          .down_converts = config.has(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS),
          .narrow_sums = config.has(CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION),
          .compiles = config.has(CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION)};
}

cudnnBackendHeurMode_t mode_of(ConvHeuristic heuristic) {
  switch (heuristic) {
    case ConvHeuristic::kA: return CUDNN_HEUR_MODE_A;
    case ConvHeuristic::kB: return CUDNN_HEUR_MODE_B;
    case ConvHeuristic::kFallback: break;
  }
  return CUDNN_HEUR_MODE_FALLBACK;
}

}  // namespace

OperationGraph conv2d_graph(const ConvKey& key, cudnnHandle_t handle) {
  const auto pair = [](const std::array<int64_t, 2>& p) { return Pair(p[0], p[1]); };
  const cudnn::ConvolutionSpec conv{.stride = pair(key.stride),
                                    .pad = pair(key.pad),
                                    .dilation = pair(key.dilation),
                                    .compute = key.compute};
  OperationGraph graph;
  if (key.fusion != ConvFusion::kNone) {
    add_fused(graph, key, conv);
    graph.finalize(handle);
    return graph;
  }
  const Descriptor& x = add_tensor(graph, kUidX, key.x);
  const Descriptor& w = add_tensor(graph, kUidW, key.w);
  const Descriptor& y = add_tensor(graph, kUidY, key.y);
  switch (key.pass) {
    case ConvPass::kForward: add_forward(graph, key, conv, x, w, y); break;
    case ConvPass::kBackwardInput: graph.convolution_backward_data(conv, x, w, y); break;
    case ConvPass::kBackwardWeight: graph.convolution_backward_filter(conv, x, w, y); break;
  }
  graph.finalize(handle);
  return graph;
}

std::vector<ConvEngineInfo> conv2d_suggested(const OperationGraph& graph, ConvHeuristic heuristic,
                                             Conv2dConfigs& found, const Descriptor* gpu) {
  std::vector<ConvEngineInfo> all;
  for (cudnn::EngineConfig& config : cudnn::heuristic_configs(graph, mode_of(heuristic), gpu)) {
    all.push_back(info_of(config));
    found.try_emplace(all.back().engine, std::move(config));
  }
  return all;
}

}  // namespace lathe::cuda
