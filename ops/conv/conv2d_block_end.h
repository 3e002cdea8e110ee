// The end of a residual block, y = relu(batch_norm(x) + residual), and the convolution that reads y
// next: the kernel of its input gradient can go on through the relu to batch norm's sums (cuDNN's
// fused pattern, conv2d_patterns_cudnn.h). Unmeasured::kResidualGrad.
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
  /// The residual that was added. Undefined if it was modified in place since.
  Tensor residual() const;

  /// What the convolution's kernel has computed of this op's gradients:
  ///   g                          the gradient of y where the relu passed it, 0 elsewhere
  ///   dweight, dbias             gradients of batch norm's weight and bias
  ///   dx = g_factor * g + x_factor * x + constant
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

/// The gradient of a convolution's input x, computed through the end of the block that made x. Call
/// it from the convolution's gradient; x is the convolution's first input. It computes something
/// only if a BlockEnd made x and one gradient waits there (autograd/waiting.h). If the search finds
/// the fused kernel fastest, the result is Left::g of both gradients, and no gradient waits any
/// more. Otherwise it is the plain input gradient, or undefined. Values differ from those of the
/// two ops in two ways:
///   - The sum of the gradients is not rounded to f16.
///   - The relu passes the gradient where its input is 0.
Tensor conv2d_backward_to_block_end(const Tensor& dy, const Tensor& w, const Shape& x_shape,
                                    const Conv2dOptions& opt);

}  // namespace lathe::cuda
