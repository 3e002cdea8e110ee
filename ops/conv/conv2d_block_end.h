// The end of a residual block, y = relu(batch_norm(x) + residual), and the convolution that reads y
// next: the kernel of its input gradient can go on through the relu to batch norm's sums (cuDNN's
// fused pattern, conv2d_fused_graph_cudnn.h). Unmeasured::kResidualGrad.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "lathe/autograd/node.h"
#include "lathe/autograd/saved.h"
#include "lathe/ops/batch_norm.h"
#include "lathe/ops/conv2d.h"

namespace lathe::cuda {

/// The op of batch_norm_add_relu, which a convolution can find behind its input.
class BlockEnd final : public autograd::Node {
 public:
  using Gradient = std::function<Tensors(const Tensors&, const autograd::Needs&)>;

  /// `gradient`: the op's, from parts (autograd/node.h).
  BlockEnd(const char* op, const BatchNormCall& call, const Tensor& residual, Gradient gradient);

  /// What the gradient reads, but for y.
  /// throws: StateError if x, weight or bias was written.
  BatchNormCall call() const;
  /// What was added, which no gradient reads else. Undefined if it was written.
  Tensor residual() const;

  /// What is computed already when g reaches the op: the gradient of y where relu passed it, and 0
  /// elsewhere. With dx = g_factor * g + x_factor * x + constant.
  struct Left {
    Tensor g, dweight, dbias, g_factor, x_factor, constant;
  };
  void leave(Left left) { left_ = std::move(left); }

  Tensors run(const Tensors& dy, const autograd::Needs& need) override;
  void release() noexcept override;

 private:
  struct Kept {
    BatchNormCall call;  // without x, weight and bias
    autograd::Saved x, weight, bias;
    Tensor residual;
    uint32_t residual_version;
    Gradient gradient;
  };
  std::optional<Kept> kept_;  // nothing when it is released
  Left left_;
};

/// The gradient of a convolution's input, from that op: where the input's maker is a BlockEnd at
/// which one gradient waits (autograd/waiting.h), and the search finds it to be the fastest. Then
/// it is Left::g of both gradients, and none waits any more. Else undefined. To be called while the
/// gradient of the convolution is computed, whose first input x is.
/// Values are those of the two ops, but for the rounding of the sum of the gradients, which stays
/// in f32 here; and relu passes the gradient where its input is 0.
Tensor conv2d_backward_to_block_end(const Tensor& dy, const Tensor& w, const Shape& x_shape,
                                    const Conv2dOptions& opt);

}  // namespace lathe::cuda
