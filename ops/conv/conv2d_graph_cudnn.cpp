// A convolution as an operation graph of cuDNN: one operation per pass, and those that are fused
// with the forward pass. Contract: conv2d_cudnn.h.
#include "lathe/ops/conv/conv2d_cudnn.h"

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

/// y = relu(conv(x, w) + bias + residual), without the parts that the fusion's name leaves out.
/// Between the operations values stay in the dtype of the sums.
void add_forward(OperationGraph& graph, const ConvKey& key, const cudnn::ConvolutionSpec& conv,
                 const Descriptor& x, const Descriptor& w, const Descriptor& y) {
  int64_t uid = kUidVirtual;
  const auto between = [&]() -> const Descriptor& {
    return graph.tensor({.uid = uid++,
                         .dtype = key.compute,
                         .dims = key.y.dims,
                         .strides = key.y.strides,
                         .is_virtual = true});
  };
  const bool has_bias = key.fusion != ConvFusion::kNone;
  const bool has_relu = has_bias && key.fusion != ConvFusion::kBias;
  const bool has_residual = key.fusion == ConvFusion::kBiasResidualRelu;

  const Descriptor* sum = has_bias ? &between() : &y;
  graph.convolution_forward(conv, x, w, *sum);
  if (has_bias) {
    const Descriptor& out = has_relu ? between() : y;
    graph.add(*sum, add_tensor(graph, kUidBias, key.bias), out);
    sum = &out;
  }
  if (has_residual) {
    const Descriptor& out = between();
    graph.add(*sum, add_tensor(graph, kUidResidual, key.residual), out);
    sum = &out;
  }
  if (has_relu) graph.relu(*sum, y);
}

}  // namespace

OperationGraph conv2d_graph(const ConvKey& key, cudnnHandle_t handle) {
  const auto pair = [](const std::array<int64_t, 2>& p) { return Pair(p[0], p[1]); };
  const cudnn::ConvolutionSpec conv{.stride = pair(key.stride),
                                    .pad = pair(key.pad),
                                    .dilation = pair(key.dilation),
                                    .compute = key.compute};
  OperationGraph graph;
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

}  // namespace lathe::cuda
