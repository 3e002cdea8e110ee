// Fused operation graphs of cuDNN. Contracts: conv2d_patterns_cudnn.h.
#include "lathe/ops/conv/cudnn/conv2d_patterns_cudnn.h"

#include "lathe/core/error.h"

namespace lathe::cuda {

using cudnn::Descriptor;
using cudnn::OperationGraph;

namespace {

/// A graph under construction: the tensors by what they are of.
class FusedGraph {
 public:
  FusedGraph(OperationGraph& graph, const ConvKey& key, const cudnn::ConvolutionSpec& conv)
      : graph_(graph), key_(key), conv_(conv) {}

  void forward() {
    if (key_.fusion == ConvFusion::kBiasRelu || key_.fusion == ConvFusion::kAddBiasRelu) {
      return forward_with_epilogue();
    }
    const bool norm = key_.fusion != ConvFusion::kStatistics;
    const Descriptor& x = norm ? normalized() : bound(kUidX, key_.x);
    const Descriptor& y = bound(kUidY, key_.y);
    graph_.convolution_forward(conv_, x, bound(kUidW, key_.w), y);
    graph_.statistics(y, channels(kUidStatSum, key_.y, kF32),
                      channels(kUidStatSquareSum, key_.y, kF32));
  }

  void forward_with_epilogue() {
    const Descriptor* sum = &inner(key_.y);
    graph_.convolution_forward(conv_, bound(kUidX, key_.x), bound(kUidW, key_.w), *sum);
    if (key_.fusion == ConvFusion::kAddBiasRelu) {
      const Descriptor& added = inner(key_.y);
      graph_.add(*sum, bound(kUidResidual, key_.y), added);
      sum = &added;
    }
    const Descriptor& shifted = inner(key_.y);
    graph_.add(*sum, channels(kUidShiftOfSum, key_.y, key_.y.dtype), shifted);
    graph_.relu(shifted, bound(kUidY, key_.y));
  }

  void backward_weight() {
    graph_.convolution_backward_filter(conv_, normalized(), bound(kUidW, key_.w),
                                       bound(kUidY, key_.y));
  }

  void backward_input() {
    const Descriptor* g = &inner();
    graph_.convolution_backward_data(conv_, *g, bound(kUidW, key_.w), bound(kUidY, key_.y));
    if (key_.fusion != ConvFusion::kReluNorm) {
      const Descriptor& sum = inner();
      graph_.add(*g, bound(kUidResidualGrad, key_.x), sum);
      g = &sum;
    }
    const Descriptor& passed = bound(kUidX, key_.x);
    const Norm first = read_norm(0);
    const Descriptor* y = &norm_of(first);
    if (key_.fusion == ConvFusion::kAddReluNorm) {
      const Descriptor& sum = inner();
      graph_.add(*y, bound(kUidResidual, key_.x), sum);
      y = &sum;
    }
    if (key_.fusion != ConvFusion::kAddReluTwoNorms) {
      graph_.relu_backward(*g, *y, passed);
      add_gradients(first, passed, 0);
      return;
    }
    const Norm second = read_norm(kUidSecondNorm);
    const Descriptor& sum = inner();
    graph_.add(*y, norm_of(second), sum);
    graph_.relu_backward(*g, sum, passed);
    add_gradients(first, passed, 0);
    add_gradients(second, passed, kUidSecondNorm);
  }

 private:
  struct Norm {
    const Descriptor &x, &mean, &invstd, &weight, &bias;
  };

  const Descriptor& bound(int64_t uid, const ConvTensor& t) {
    return graph_.tensor({.uid = uid,
                          .dtype = t.dtype,
                          .dims = t.dims,
                          .strides = t.strides,
                          .alignment = t.alignment});
  }

  /// A tensor with one number per channel of t.
  const Descriptor& channels(int64_t uid, const ConvTensor& t, DType dtype) {
    const int64_t count = t.dims[1];
    return graph_.tensor({.uid = uid,
                          .dtype = dtype,
                          .dims = {1, count, 1, 1},
                          .strides = {count, 1, count, count}});
  }

  /// A tensor of t's sizes that exists only inside the graph.
  const Descriptor& inner(const ConvTensor& t) {
    return graph_.tensor({.uid = next_inner_++,
                          .dtype = kF32,
                          .dims = t.dims,
                          .strides = t.strides,
                          .is_virtual = true});
  }
  const Descriptor& inner() { return inner(key_.x); }

  /// relu(scale * x + shift)
  const Descriptor& normalized() {
    const Descriptor &scaled = inner(), &shifted = inner(), &result = inner();
    graph_.multiply(bound(kUidX, key_.x), channels(kUidScale, key_.x, key_.x.dtype), scaled);
    graph_.add(scaled, channels(kUidShift, key_.x, key_.x.dtype), shifted);
    graph_.relu(shifted, result);
    return result;
  }

  Norm read_norm(int64_t which) {
    const auto of = [&](int64_t uid) -> const Descriptor& {
      return channels(uid + which, key_.x, kF32);
    };
    return {bound(kUidNormX + which, key_.x), of(kUidMean), of(kUidInvstd), of(kUidWeight),
            of(kUidNormBias)};
  }

  const Descriptor& norm_of(const Norm& n) {
    const Descriptor &centred = inner(), &standard = inner(), &scaled = inner(), &y = inner();
    graph_.subtract(n.x, n.mean, centred);
    graph_.multiply(centred, n.invstd, standard);
    graph_.multiply(standard, n.weight, scaled);
    graph_.add(scaled, n.bias, y);
    return y;
  }

  void add_gradients(const Norm& n, const Descriptor& dy, int64_t which) {
    const auto out = [&](int64_t uid) -> const Descriptor& {
      return channels(uid + which, key_.x, kF32);
    };
    graph_.batch_norm_backward({.x = n.x,
                                .dy = dy,
                                .mean = n.mean,
                                .invstd = n.invstd,
                                .scale = n.weight,
                                .dscale = out(kUidDweight),
                                .dbias = out(kUidDbias),
                                .dy_factor = out(kUidGradFactor),
                                .x_factor = out(kUidXFactor),
                                .constant = out(kUidConstant)});
  }

  OperationGraph& graph_;
  const ConvKey& key_;
  const cudnn::ConvolutionSpec& conv_;
  int64_t next_inner_ = 1000;
};

}  // namespace

void add_fused(OperationGraph& graph, const ConvKey& key, const cudnn::ConvolutionSpec& conv) {
  FusedGraph fused(graph, key, conv);
  switch (key.pass) {
    case ConvPass::kForward: return fused.forward();
    case ConvPass::kBackwardInput: return fused.backward_input();
    case ConvPass::kBackwardWeight: return fused.backward_weight();
  }
}

}  // namespace lathe::cuda
