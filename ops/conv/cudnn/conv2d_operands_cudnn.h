// The tensors of one convolution as cuDNN gets them, and their key. For *_cudnn.cpp files only.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "lathe/core/gpu/cudnn_plan.h"
#include "lathe/core/tensor.h"
#include "lathe/ops/conv/conv2d_geometry.h"
#include "lathe/ops/conv/cudnn/conv2d_graph_cudnn.h"
#include "lathe/ops/conv/search/conv_key.h"

namespace lathe::cuda {

/// A tensor of a fused graph beside x, w and y (FusedUid).
struct FusedOperand {
  int64_t uid = 0;
  Tensor tensor;
  bool is_written = false;
};

/// The tensors of one call, dense in the key's order. Which of x, w and y is written depends on the
/// pass.
struct Conv2dOperands {
  Tensor x, w, y;                        // or their gradients
  Tensor bias = {};                      // undefined where the key has none
  std::vector<FusedOperand> fused = {};  // none where the key has no fusion
};

Conv2dUid conv2d_output_uid(ConvPass pass);

/// The key of a call with these operands, on their device.
ConvKey conv2d_key_of(ConvPass pass, const Conv2dGeometry& sizes, MemoryFormat format,
                      const Conv2dOperands& operands);

/// The uid and address of each tensor of a call, without an allocation.
class Conv2dBindings {
 public:
  explicit Conv2dBindings(const Conv2dOperands& operands);
  std::span<cudnn::Binding> get() { return {tensors_.data(), count_}; }

 private:
  static constexpr size_t kMost = 24;  // with two norms

  std::array<cudnn::Binding, kMost> tensors_;
  size_t count_ = 0;
};

}  // namespace lathe::cuda
