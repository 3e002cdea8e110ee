// LoraLayer: what LoRA (lora.h) must know of a layer to adapt its weight.
#pragma once

#include <optional>

#include "lathe/core/tensor.h"
#include "lathe/ops/conv2d.h"

namespace lathe::nn {

/// A layer whose result is linear in its weight.
struct LoraLayer {
  enum class Kind {
    kLinear,     // weight [out,in]
    kConv2d,     // weight [out,in,R,S]
    kEmbedding,  // weight [entries,width]
  };
  Kind kind = Kind::kLinear;
  Tensor weight = {};                         // the layer's parameter
  bool is_transposed = false;                 // of kLinear: the weight is [in,out]
  lathe::Conv2dOptions conv = {};             // of kConv2d: without bias, of one group
  std::optional<int64_t> padding_index = {};  // of kEmbedding
};

}  // namespace lathe::nn
