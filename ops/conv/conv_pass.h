// ConvPass: which of a convolution's three products is computed. ConvFusion: what the same kernel
// computes before or after it. For the convolutions of both backends and for the search.
#pragma once

#include <cstdint>

namespace lathe {

/// Words in texts: forward, backward_input, backward_weight.
enum class ConvPass : uint8_t { kForward, kBackwardInput, kBackwardWeight };

/// Patterns that cuDNN has kernels for (ops/conv/cudnn/conv2d_patterns_cudnn.h describes them):
/// five of training, two of inference. A bias alone is not among them: it shows in the key. Words
/// in texts: none, statistics, norm_relu, relu_norm, add_relu_norm, add_relu_two_norms, bias_relu,
/// add_bias_relu.
enum class ConvFusion : uint8_t {
  kNone,
  kStatistics,       // after the forward pass: the sums that batch norm needs of y
  kNormRelu,         // x = relu(norm(x)) before the forward pass, then kStatistics; or before the
                     // weight gradient
  kReluNorm,         // after the input gradient: back through relu(norm(x)), but for norm's dx
  kAddReluNorm,      // the same with a residual: through relu(norm(x) + residual)
  kAddReluTwoNorms,  // the same where the residual is the norm of another tensor
  kBiasRelu,         // after the forward pass: relu(y + bias)
  kAddBiasRelu,      // the same with a residual: relu(y + residual + bias)
};
inline constexpr int kConvFusions = 8;

}  // namespace lathe
