// Multi-head attention, with the parameter names of torch.nn.MultiheadAttention.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "lathe/nn/linear.h"
#include "lathe/nn/module_of.h"

namespace lathe::nn {

struct MultiheadAttentionOptions {
  double dropout = 0;       // of the weights, in training
  bool bias = true;         // of all four projections
  bool batch_first = true;  // false: [L,N,size] and [S,N,size], PyTorch's default
};

/// Marks the keys that a query must not look at, as in PyTorch: a bool mask is true at these keys,
/// a floating mask is added to q k^T / sqrt(D). Several masks act together.
struct AttentionMask {
  Tensor attn_mask = {};         // broadcast to [N,heads,L,S]; or of PyTorch's [N*heads,L,S]
  Tensor key_padding_mask = {};  // [N,S]
  bool is_causal = false;        // query i must not look at the keys after i

  Tensors tensors() const { return {attn_mask, key_padding_mask}; }
};

struct AttentionWeightsOptions {
  bool average_attn_weights = true;  // false: the weights of each head
};

/// The keys and values of all earlier tokens, for MultiheadAttention::decode. The cache's memory
/// grows by doubling. A copy has memory of its own, so that several continuations can be decoded.
class LATHE_API KeyValueCache {
 public:
  KeyValueCache() = default;
  KeyValueCache(const KeyValueCache& other);
  KeyValueCache& operator=(const KeyValueCache& other);
  KeyValueCache(KeyValueCache&&) = default;
  KeyValueCache& operator=(KeyValueCache&&) = default;

  /// Appends key and value [N,heads,L,D].   → all keys and all values, [N,heads,length(),D]
  /// If append() throws, the cache is as before.
  /// throws: ShapeError, DTypeError, DeviceError if key and value do not fit the earlier ones.
  std::pair<Tensor, Tensor> append(const Tensor& key, const Tensor& value);
  /// The number of tokens.
  int64_t length() const { return length_; }
  /// Forgets the tokens after the first `length`.
  /// throws: ValueError unless `length` is in [0,length()].
  void truncate(int64_t length);
  void clear() { *this = {}; }

 private:
  Tensor keys_, values_;  // [N,heads,capacity,D]
  int64_t length_ = 0;
};

namespace detail {

/// Runs f(), which decodes with `caches`. If f() throws, the caches keep their earlier tokens.
LATHE_API Tensor decode_with(std::span<KeyValueCache> caches, FunctionRef<Tensor()> f);

}  // namespace detail

/// Projects query, key and value to q, k and v, with D = size / heads numbers for each head. Each
/// head computes softmax(q k^T / sqrt(D)) v. The heads' results are joined along the last
/// dimension, and out_proj projects them.
///   query  [N,L,size]     key, value  [N,S,size]     →  [N,L,size]
/// A single sequence may come without N. Parameters:
///   in_proj_weight [3 size,size]   rows of q, k and v in this order, xavier_uniform
///   in_proj_bias [3 size]          0
///   out_proj.weight [size,size]    as in Linear
///   out_proj.bias [size]           0
///   nn::MultiheadAttention attention{*this, "attention", 384, 6};
///   y = attention(x);                   // self-attention
///   y = attention(query, x, x, {.attn_mask = mask});
///   auto [z, weights] = attention.with_weights(x, x, x, {.is_causal = true});
/// ref: Vaswani et al. 2017 (arXiv:1706.03762).
class LATHE_API MultiheadAttention final
    : public ModuleOf<Tensor(const Tensor& query, const Tensor& key, const Tensor& value,
                             const AttentionMask& mask)> {
 public:
  /// throws: ValueError unless heads is positive and divides size.
  MultiheadAttention(int64_t size, int64_t heads, const MultiheadAttentionOptions& options = {});
  MultiheadAttention(Module& parent, const std::string& name, int64_t size, int64_t heads,
                     const MultiheadAttentionOptions& options = {})
      : MultiheadAttention(size, heads, options) {
    join(parent, name);
  }

  using ModuleOf::operator(), ModuleOf::forward;
  /// If the masks hide every key from a query, the heads give 0, so the query's result is
  /// out_proj.bias.
  /// throws: ShapeError, DTypeError for a mask of integers.
  Tensor forward(const Tensor& query, const Tensor& key, const Tensor& value,
                 const AttentionMask& mask) override;
  /// Self-attention without a mask.
  Tensor operator()(const Tensor& x) { return (*this)(x, x, x, {}); }
  /// Like forward(), but also returns the attention weights, after dropout.
  ///   →  the result, and the weights: [N,L,S], averaged over the heads; or [N,heads,L,S] without
  ///      average_attn_weights
  /// The weights of a query that may look nowhere are 0.
  std::pair<Tensor, Tensor> with_weights(const Tensor& query, const Tensor& key,
                                         const Tensor& value, const AttentionMask& mask = {},
                                         const AttentionWeightsOptions& options = {});
  /// Self-attention of tokens that follow the tokens in `cache`. Appends the keys and values of the
  /// new tokens to `cache`. Each token looks at itself and at all tokens before it. There is no
  /// dropout, and autograd records nothing. If decode() throws, `cache` keeps its earlier tokens.
  ///   x  [N,L,size]   →  [N,L,size]: the rows that forward() with is_causal gives for the whole
  ///      sequence
  /// throws: ShapeError, also if `cache` holds another batch; what append() and the ops throw.
  Tensor decode(const Tensor& x, KeyValueCache& cache);
  /// The multiply-adds of the projections of q, k and v, and of both matrix products. The module
  /// out_proj counts its own multiply-adds.
  int64_t macs_of_call(const Tensors& inputs, const Tensors& outputs) const override;

  Parameter in_proj_weight, in_proj_bias;
  Linear out_proj;

 private:
  struct Heads {
    Tensor q, k, v;  // [N,heads,L,D], [N,heads,S,D] twice
  };
  Heads heads_of(const Tensor& query, const Tensor& key, const Tensor& value) const;
  Tensor projected(const Tensor& x, int first, int count) const;
  Tensor combined_mask(const AttentionMask& masks, const Heads& heads) const;
  Tensor joined(const Tensor& heads, const Tensor& query);

  int64_t size_, heads_;
  MultiheadAttentionOptions options_;
};

}  // namespace lathe::nn
