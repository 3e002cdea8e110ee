// Layers of the Transformer, with the parameter names of torch.nn.
//   nn::TransformerEncoder encoder{*this, "encoder", 64, 4, 6, {.layer = {.batch_first = true}}};
//   y = encoder(x, {.key_padding_mask = padding});
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lathe/nn/attention.h"
#include "lathe/nn/containers.h"
#include "lathe/nn/dropout.h"
#include "lathe/nn/linear.h"
#include "lathe/nn/module_of.h"
#include "lathe/nn/norm.h"

namespace lathe::nn {

enum class TransformerActivation { kReLU, kGELU };

struct TransformerLayerOptions {
  int64_t dim_feedforward = 2048;  // the width between linear1 and linear2
  double dropout = 0.1;            // of weights of attention, of activations and of results
  TransformerActivation activation = TransformerActivation::kReLU;
  double layer_norm_eps = 1e-5;
  bool batch_first = false;  // x is [N,T,d_model], not [T,N,d_model]
  bool norm_first = false;   // x + f(norm(x)), not norm(x + f(x))
  bool bias = true;          // of all layers and norms
};

struct TransformerStackOptions {
  TransformerLayerOptions layer = {};
  bool norm = false;  // a LayerNorm after the last layer
};

/// x = norm1(x + self_attn(x));   x = norm2(x + linear2(activation(linear1(x)))), with dropout
/// after the attention, the activation and linear2.
///   src  [T,N,d_model], [N,T,d_model] with batch_first, or [T,d_model]   →  src's shape
///        jit::trace() takes dimension 0 for the batch: trace a model that has batch_first.
///   mask  what self_attn takes: {.attn_mask, .key_padding_mask, .is_causal}
/// ref: Vaswani et al. 2017 (arXiv:1706.03762); torch.nn.TransformerEncoderLayer.
class LATHE_API TransformerEncoderLayer final
    : public ModuleOf<Tensor(const Tensor& src, const AttentionMask& mask)> {
 public:
  /// throws: ValueError as MultiheadAttention and Dropout.
  TransformerEncoderLayer(int64_t d_model, int64_t nhead,
                          const TransformerLayerOptions& options = {});
  TransformerEncoderLayer(Module& parent, const std::string& name, int64_t d_model, int64_t nhead,
                          const TransformerLayerOptions& options = {})
      : TransformerEncoderLayer(d_model, nhead, options) {
    join(parent, name);
  }

  using ModuleOf::operator(), ModuleOf::forward;
  Tensor forward(const Tensor& src, const AttentionMask& mask) override;
  Tensor operator()(const Tensor& src) { return (*this)(src, {}); }
  /// Like forward() with is_causal, for tokens that follow the tokens in `cache`: see
  /// MultiheadAttention::decode.
  /// throws: StateError in training mode, because dropout acts in it.
  Tensor decode(const Tensor& src, KeyValueCache& cache);

  MultiheadAttention self_attn;
  Linear linear1;
  Dropout dropout;
  Linear linear2;
  LayerNorm norm1, norm2;
  Dropout dropout1, dropout2;

 private:
  Tensor with_attention(const Tensor& src, FunctionRef<Tensor(const Tensor&)> attention);

  TransformerActivation activation_;
  bool norm_first_;
};

/// TransformerEncoderLayers one after another, "layers.0", …, then `norm` if there is one. Each
/// layer draws initial values of its own.
/// ref: torch.nn.TransformerEncoder, whose layers begin with equal weights.
class LATHE_API TransformerEncoder final
    : public ModuleOf<Tensor(const Tensor& src, const AttentionMask& mask)> {
 public:
  /// throws: ValueError as TransformerEncoderLayer, or unless num_layers is positive.
  TransformerEncoder(int64_t d_model, int64_t nhead, int64_t num_layers,
                     const TransformerStackOptions& options = {});
  TransformerEncoder(Module& parent, const std::string& name, int64_t d_model, int64_t nhead,
                     int64_t num_layers, const TransformerStackOptions& options = {})
      : TransformerEncoder(d_model, nhead, num_layers, options) {
    join(parent, name);
  }

  using ModuleOf::operator(), ModuleOf::forward;
  Tensor forward(const Tensor& src, const AttentionMask& mask) override;
  Tensor operator()(const Tensor& src) { return (*this)(src, {}); }
  /// Like forward() with is_causal, for tokens that follow the tokens in `caches`. There is one
  /// cache for each layer; an empty list becomes caches without tokens. If decode() throws, the
  /// caches keep their earlier tokens.
  /// throws: ValueError unless there is one cache for each layer, all of one length; StateError in
  /// training mode.
  Tensor decode(const Tensor& src, std::vector<KeyValueCache>& caches);

  ListOf<TransformerEncoderLayer> layers{*this, "layers"};
  std::optional<LayerNorm> norm;
};

struct TransformerDecoderMasks {
  AttentionMask tgt = {}, memory = {};  // of self_attn and of multihead_attn

  Tensors tensors() const { return tensors_in(tgt, memory); }
};

/// x = norm1(x + self_attn(x));   x = norm2(x + multihead_attn(x, memory, memory));
/// x = norm3(x + linear2(activation(linear1(x)))), with dropout as in the encoder's layer.
///   tgt  as src of TransformerEncoderLayer     memory  what the encoder made   →  tgt's shape
///   y = layer(tgt, memory, {.tgt = {.is_causal = true}});
/// ref: Vaswani et al. 2017 (arXiv:1706.03762); torch.nn.TransformerDecoderLayer.
class LATHE_API TransformerDecoderLayer final
    : public ModuleOf<Tensor(const Tensor& tgt, const Tensor& memory,
                             const TransformerDecoderMasks& masks)> {
 public:
  /// throws: ValueError as MultiheadAttention and Dropout.
  TransformerDecoderLayer(int64_t d_model, int64_t nhead,
                          const TransformerLayerOptions& options = {});
  TransformerDecoderLayer(Module& parent, const std::string& name, int64_t d_model, int64_t nhead,
                          const TransformerLayerOptions& options = {})
      : TransformerDecoderLayer(d_model, nhead, options) {
    join(parent, name);
  }

  using ModuleOf::operator(), ModuleOf::forward;
  Tensor forward(const Tensor& tgt, const Tensor& memory,
                 const TransformerDecoderMasks& masks) override;
  Tensor operator()(const Tensor& tgt, const Tensor& memory) { return (*this)(tgt, memory, {}); }

  MultiheadAttention self_attn, multihead_attn;
  Linear linear1;
  Dropout dropout;
  Linear linear2;
  LayerNorm norm1, norm2, norm3;
  Dropout dropout1, dropout2, dropout3;

 private:
  TransformerActivation activation_;
  bool norm_first_;
};

/// TransformerDecoderLayers one after another, "layers.0", …, then `norm` if there is one. Each
/// layer draws initial values of its own.
/// ref: torch.nn.TransformerDecoder, whose layers begin with equal weights.
class LATHE_API TransformerDecoder final
    : public ModuleOf<Tensor(const Tensor& tgt, const Tensor& memory,
                             const TransformerDecoderMasks& masks)> {
 public:
  /// throws: ValueError as TransformerDecoderLayer, or unless num_layers is positive.
  TransformerDecoder(int64_t d_model, int64_t nhead, int64_t num_layers,
                     const TransformerStackOptions& options = {});
  TransformerDecoder(Module& parent, const std::string& name, int64_t d_model, int64_t nhead,
                     int64_t num_layers, const TransformerStackOptions& options = {})
      : TransformerDecoder(d_model, nhead, num_layers, options) {
    join(parent, name);
  }

  using ModuleOf::operator(), ModuleOf::forward;
  Tensor forward(const Tensor& tgt, const Tensor& memory,
                 const TransformerDecoderMasks& masks) override;
  Tensor operator()(const Tensor& tgt, const Tensor& memory) { return (*this)(tgt, memory, {}); }

  ListOf<TransformerDecoderLayer> layers{*this, "layers"};
  std::optional<LayerNorm> norm;
};

}  // namespace lathe::nn
