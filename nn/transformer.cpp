// Layers of the Transformer: residual branches around attention and two linear layers.
#include "lathe/nn/transformer.h"

#include "lathe/autograd/grad_mode.h"
#include "lathe/ops/activations.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/unary.h"

namespace lathe::nn {

namespace {

/// x + f(norm(x)), or norm(x + f(x)).
Tensor branch(const Tensor& x, LayerNorm& norm, bool norm_first,
              FunctionRef<Tensor(const Tensor&)> f) {
  return norm_first ? add(x, f(norm(x))) : norm(add(x, f(x)));
}

/// linear2(dropout(activation(linear1(x)))) of a layer.
Tensor feed_forward(auto& layer, TransformerActivation activation, const Tensor& x) {
  const Tensor h = layer.linear1(x);
  return layer.linear2(
      layer.dropout(activation == TransformerActivation::kReLU ? relu(h) : gelu(h)));
}

MultiheadAttentionOptions attention_options(const TransformerLayerOptions& o) {
  return {.dropout = o.dropout, .bias = o.bias, .batch_first = o.batch_first};
}

NormOptions norm_options(const TransformerLayerOptions& o) {
  return {.eps = o.layer_norm_eps, .bias = o.bias};
}

/// The layers and the norm of a stack.
void fill(auto& stack, const char* who, int64_t d_model, int64_t nhead, int64_t num_layers,
          const TransformerStackOptions& options) {
  LATHE_CHECK(ValueError, num_layers > 0, who, ": num_layers must be positive, got ", num_layers);
  for (int64_t i = 0; i < num_layers; ++i) stack.layers.add(d_model, nhead, options.layer);
  if (options.norm) stack.norm.emplace(stack, "norm", d_model, norm_options(options.layer));
}

}  // namespace

TransformerEncoderLayer::TransformerEncoderLayer(int64_t d_model, int64_t nhead,
                                                 const TransformerLayerOptions& o)
    : self_attn(*this, "self_attn", d_model, nhead, attention_options(o)),
      linear1(*this, "linear1", d_model, o.dim_feedforward, {.bias = o.bias}),
      dropout(*this, "dropout", o.dropout),
      linear2(*this, "linear2", o.dim_feedforward, d_model, {.bias = o.bias}),
      norm1(*this, "norm1", d_model, norm_options(o)),
      norm2(*this, "norm2", d_model, norm_options(o)),
      dropout1(*this, "dropout1", o.dropout),
      dropout2(*this, "dropout2", o.dropout),
      activation_(o.activation),
      norm_first_(o.norm_first) {}

Tensor TransformerEncoderLayer::with_attention(const Tensor& src,
                                               FunctionRef<Tensor(const Tensor&)> attention) {
  const Tensor x =
      branch(src, norm1, norm_first_, [&](const Tensor& t) { return dropout1(attention(t)); });
  return branch(x, norm2, norm_first_,
                [&](const Tensor& t) { return dropout2(feed_forward(*this, activation_, t)); });
}

Tensor TransformerEncoderLayer::forward(const Tensor& src, const AttentionMask& mask) {
  return with_attention(src, [&](const Tensor& t) { return self_attn(t, t, t, mask); });
}

Tensor TransformerEncoderLayer::decode(const Tensor& src, KeyValueCache& cache) {
  const NoGrad off;
  return detail::decode_with({&cache, 1}, [&] {
    return with_call_hooks({src}, [&] {
      LATHE_CHECK(StateError, !is_training(),
                  "TransformerEncoderLayer: decode() needs evaluation mode; call eval()");
      return Tensors{
          with_attention(src, [&](const Tensor& t) { return self_attn.decode(t, cache); })};
    })[0];
  });
}

TransformerEncoder::TransformerEncoder(int64_t d_model, int64_t nhead, int64_t num_layers,
                                       const TransformerStackOptions& options) {
  fill(*this, "TransformerEncoder", d_model, nhead, num_layers, options);
}

Tensor TransformerEncoder::forward(const Tensor& src, const AttentionMask& mask) {
  Tensor x = src;
  for (TransformerEncoderLayer& layer : layers) x = layer(x, mask);
  return norm ? (*norm)(x) : x;
}

Tensor TransformerEncoder::decode(const Tensor& src, std::vector<KeyValueCache>& caches) {
  const NoGrad off;
  if (caches.empty()) caches.resize(static_cast<size_t>(layers.size()));
  return detail::decode_with(caches, [&] {
    return with_call_hooks({src}, [&] {
      LATHE_CHECK(ValueError, std::ssize(caches) == layers.size(),
                  "TransformerEncoder: decode() got ", caches.size(), " caches for ", layers.size(),
                  " layers");
      for (const KeyValueCache& cache : caches) {
        LATHE_CHECK(ValueError, cache.length() == caches[0].length(),
                    "TransformerEncoder: decode() got caches of ", caches[0].length(), " and of ",
                    cache.length(), " tokens");
      }
      Tensor x = src;
      for (int64_t i = 0; i < layers.size(); ++i)
        x = layers[i].decode(x, caches[static_cast<size_t>(i)]);
      return Tensors{norm ? (*norm)(x) : x};
    })[0];
  });
}

TransformerDecoderLayer::TransformerDecoderLayer(int64_t d_model, int64_t nhead,
                                                 const TransformerLayerOptions& o)
    : self_attn(*this, "self_attn", d_model, nhead, attention_options(o)),
      multihead_attn(*this, "multihead_attn", d_model, nhead, attention_options(o)),
      linear1(*this, "linear1", d_model, o.dim_feedforward, {.bias = o.bias}),
      dropout(*this, "dropout", o.dropout),
      linear2(*this, "linear2", o.dim_feedforward, d_model, {.bias = o.bias}),
      norm1(*this, "norm1", d_model, norm_options(o)),
      norm2(*this, "norm2", d_model, norm_options(o)),
      norm3(*this, "norm3", d_model, norm_options(o)),
      dropout1(*this, "dropout1", o.dropout),
      dropout2(*this, "dropout2", o.dropout),
      dropout3(*this, "dropout3", o.dropout),
      activation_(o.activation),
      norm_first_(o.norm_first) {}

Tensor TransformerDecoderLayer::forward(const Tensor& tgt, const Tensor& memory,
                                        const TransformerDecoderMasks& masks) {
  Tensor x = branch(tgt, norm1, norm_first_,
                    [&](const Tensor& t) { return dropout1(self_attn(t, t, t, masks.tgt)); });
  x = branch(x, norm2, norm_first_, [&](const Tensor& t) {
    return dropout2(multihead_attn(t, memory, memory, masks.memory));
  });
  return branch(x, norm3, norm_first_,
                [&](const Tensor& t) { return dropout3(feed_forward(*this, activation_, t)); });
}

TransformerDecoder::TransformerDecoder(int64_t d_model, int64_t nhead, int64_t num_layers,
                                       const TransformerStackOptions& options) {
  fill(*this, "TransformerDecoder", d_model, nhead, num_layers, options);
}

Tensor TransformerDecoder::forward(const Tensor& tgt, const Tensor& memory,
                                   const TransformerDecoderMasks& masks) {
  Tensor x = tgt;
  for (TransformerDecoderLayer& layer : layers) x = layer(x, memory, masks);
  return norm ? (*norm)(x) : x;
}

}  // namespace lathe::nn
