// Vision Transformers: patches, blocks and initial values.
#include "lathe/nn/vit.h"

#include <cmath>

#include "lathe/nn/activation.h"
#include "lathe/nn/init.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/join.h"
#include "lathe/ops/views.h"

namespace lathe::nn {

namespace {

constexpr NormOptions kNorm{.eps = 1e-6};

const ViTLayout& checked(const ViTLayout& o) {
  LATHE_CHECK(ValueError,
              o.patch_size > 0 && o.layers > 0 && o.heads > 0 && o.hidden > 0 && o.mlp > 0,
              "VisionTransformer: patch_size ", o.patch_size, ", layers ", o.layers, ", heads ",
              o.heads, ", hidden ", o.hidden, " and mlp ", o.mlp, " must be positive");
  return o;
}

int64_t patches_of(const ViTLayout& layout, const ViTOptions& options) {
  LATHE_CHECK(ValueError,
              options.image_size > 0 && options.image_size % checked(layout).patch_size == 0,
              "VisionTransformer: an image_size of ", options.image_size,
              " is no multiple of the patch size ", layout.patch_size);
  const int64_t side = options.image_size / layout.patch_size;
  return side * side;
}

void add_mlp_layer(Sequential& mlp, int64_t in, int64_t out) {
  const Linear& layer = mlp.add<Linear>(in, out, LinearOptions{.init = false});
  init::xavier_uniform_(layer.weight);
  init::normal_(layer.bias, 0, 1e-6);
}

}  // namespace

ViTBlock::ViTBlock(const ViTLayout& layout, const ViTOptions& options)
    : ln_1(*this, "ln_1", checked(layout).hidden, kNorm),
      self_attention(*this, "self_attention", layout.hidden, layout.heads,
                     {.dropout = options.attention_dropout}),
      dropout(*this, "dropout", options.dropout),
      ln_2(*this, "ln_2", layout.hidden, kNorm) {
  add_mlp_layer(mlp, layout.hidden, layout.mlp);
  mlp.add<GELU>();
  mlp.add<Dropout>(options.dropout);
  add_mlp_layer(mlp, layout.mlp, layout.hidden);
  mlp.add<Dropout>(options.dropout);
}

Tensor ViTBlock::forward(const Tensor& x) {
  const Tensor h = add(x, dropout(self_attention(ln_1(x))));
  return add(h, mlp(ln_2(h)));
}

ViTEncoder::ViTEncoder(Module& parent, const std::string& name, const ViTLayout& layout,
                       const ViTOptions& options)
    : Module(parent, name),
      dropout(*this, "dropout", options.dropout),
      ln(*this, "ln", layout.hidden, kNorm) {
  const int64_t places = patches_of(layout, options) + 1;
  pos_embedding = parameter("pos_embedding", empty({1, places, layout.hidden}));
  init::normal_(pos_embedding, 0, 0.02);
  for (int64_t i = 0; i < layout.layers; ++i) {
    layers.add_named<ViTBlock>(concat("encoder_layer_", i), layout, options);
  }
}

Tensor ViTEncoder::forward(const Tensor& x) { return ln(layers(dropout(add(x, pos_embedding)))); }

VisionTransformer::VisionTransformer(const ViTLayout& layout, const ViTOptions& options)
    : conv_proj(*this, "conv_proj", options.in_channels, checked(layout).hidden,
                {.kernel = layout.patch_size, .stride = layout.patch_size, .init = false}),
      encoder(*this, "encoder", layout, options),
      image_size_(options.image_size) {
  LATHE_CHECK(ValueError, options.classes > 0, "VisionTransformer: classes must be positive, got ",
              options.classes);
  class_token = parameter("class_token", zeros({1, 1, layout.hidden}));
  const auto fan_in = static_cast<double>(init::fans_of(conv_proj.weight.shape()).in);
  init::trunc_normal_(conv_proj.weight, {.std = 1 / std::sqrt(fan_in)});
  init::zeros_(conv_proj.bias);
  const Linear& head =
      heads.add_named<Linear>("head", layout.hidden, options.classes, LinearOptions{.init = false});
  init::zeros_(head.weight);
  init::zeros_(head.bias);
}

Tensor VisionTransformer::features(const Tensor& x) {
  LATHE_CHECK(ShapeError, x.ndim() == 4 && x.dim(2) == image_size_ && x.dim(3) == image_size_,
              "VisionTransformer: made for images of ", image_size_, " x ", image_size_,
              " pixels (x: ", x, ")");
  const Tensor patches = transpose(flatten(conv_proj(x), 2), 1, 2);  // [N,patches,hidden]
  const Tensor token = expand(class_token, {x.dim(0), 1, -1});
  return select(encoder(cat({token, patches}, 1)), 1, 0);
}

Tensor VisionTransformer::forward(const Tensor& x) { return heads(features(x)); }

VisionTransformer vit_b_16(const ViTOptions& options) {
  return VisionTransformer(
      {.patch_size = 16, .layers = 12, .heads = 12, .hidden = 768, .mlp = 3072}, options);
}
VisionTransformer vit_s_16(const ViTOptions& options) {
  return VisionTransformer({.patch_size = 16, .layers = 12, .heads = 6, .hidden = 384, .mlp = 1536},
                           options);
}

}  // namespace lathe::nn
