// Vision Transformers: ViT-B/16 as in torchvision, and the smaller ViT-S/16.
// ref: Dosovitskiy et al. 2021 (arXiv:2010.11929).
#pragma once

#include <cstdint>

#include "lathe/nn/attention.h"
#include "lathe/nn/containers.h"
#include "lathe/nn/conv.h"
#include "lathe/nn/dropout.h"
#include "lathe/nn/module.h"
#include "lathe/nn/norm.h"

namespace lathe::nn {

struct ViTOptions {
  int64_t classes = 1000;
  int64_t image_size = 224;  // rows and columns of every image; a multiple of the patch size
  int64_t in_channels = 3;
  double dropout = 0;            // of the embedded patches, of attention's and the MLP's results
  double attention_dropout = 0;  // of the attention weights
};

/// The sizes of a Vision Transformer.
struct ViTLayout {
  // All must be set. mlp: the width between the MLP's two layers.
  int64_t patch_size = 0, layers = 0, heads = 0, hidden = 0, mlp = 0;
};

/// h = x + dropout(self_attention(ln_1(x)));   result = h + mlp(ln_2(h)).
/// [N,T,hidden] → [N,T,hidden]
/// mlp is Linear, GELU, Dropout, Linear, Dropout. Its initial weights are xavier_uniform, its
/// biases N(0, 1e-6).
class LATHE_API ViTBlock final : public Module {
 public:
  /// throws: ValueError as VisionTransformer.
  ViTBlock(const ViTLayout& layout, const ViTOptions& options);
  Tensor forward(const Tensor& x) override;

  LayerNorm ln_1;
  MultiheadAttention self_attention;
  Dropout dropout;
  LayerNorm ln_2;
  Sequential mlp{*this, "mlp"};
};

/// ln(layers(dropout(x + pos_embedding))).   [N,T,hidden] → [N,T,hidden]
/// Initial values of pos_embedding [1,T,hidden]: N(0, 0.02). The layers are named encoder_layer_0,
/// ….
class LATHE_API ViTEncoder final : public Module {
 public:
  /// throws: ValueError as VisionTransformer.
  ViTEncoder(Module& parent, const std::string& name, const ViTLayout& layout,
             const ViTOptions& options);
  Tensor forward(const Tensor& x) override;

  Parameter pos_embedding;
  Dropout dropout;
  Sequential layers{*this, "layers"};
  LayerNorm ln;
};

/// [N,in_channels,image_size,image_size] → [N,classes]. The encoder gets a class token, which is
/// learnt, followed by the patches of the image. The head reads the encoder's result for the class
/// token. Names, shapes and initial values are torchvision's:
///   class_token  0
///   conv_proj    weight trunc_normal(std = 1/sqrt(fan_in)), bias 0
///   encoder      as in ViTEncoder and ViTBlock
///   heads        0
class LATHE_API VisionTransformer final : public Module {
 public:
  /// throws: ValueError unless all numbers of the layout, image_size, in_channels and classes are
  /// positive, image_size is a multiple of the patch size, and hidden is a multiple of heads.
  VisionTransformer(const ViTLayout& layout, const ViTOptions& options);
  /// throws: ShapeError unless the images have image_size rows and columns.
  Tensor forward(const Tensor& x) override;
  /// The input of the head: [N,in_channels,image_size,image_size] → [N,hidden].
  Tensor features(const Tensor& x);

  Parameter class_token;  // [1,1,hidden]
  Conv2d conv_proj;
  ViTEncoder encoder;
  Sequential heads{*this, "heads"};  // has one child, "head"

 private:
  int64_t image_size_;
};

/// 86,567,656 parameters by default.
LATHE_API VisionTransformer vit_b_16(const ViTOptions& options = {});
/// 22,050,664 parameters by default: half as wide as ViT-B/16. torchvision has no such model; this
/// is the ViT-S of Touvron et al. 2021 (arXiv:2012.12877).
LATHE_API VisionTransformer vit_s_16(const ViTOptions& options = {});

}  // namespace lathe::nn
