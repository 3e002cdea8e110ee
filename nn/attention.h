// Multi-head attention, with the parameter names of torch.nn.MultiheadAttention.
#pragma once

#include <cstdint>

#include "lathe/nn/linear.h"
#include "lathe/nn/module_of.h"

namespace lathe::nn {

struct MultiheadAttentionOptions {
  double dropout = 0;  // of the weights, in training
  bool bias = true;    // of all four projections
};

/// Marks the keys that a query must not look at. For PyTorch's key_padding_mask [N,S], write
/// {.attn_mask = key_padding_mask.view({N, 1, 1, S})}.
struct AttentionMask {
  Tensor attn_mask = {};  // undefined, or broadcast to [N,heads,L,S]

  Tensors tensors() const { return {attn_mask}; }
};

/// Projects query, key and value to q, k and v, with D = size / heads numbers for each head. Each
/// head computes softmax(q k^T / sqrt(D)) v. The heads' results are joined along the last
/// dimension, and out_proj projects them.
///   query  [N,L,size]     key, value  [N,S,size]     →  [N,L,size]
/// The batch is the first dimension, as with PyTorch's batch_first = True. The attention weights
/// are not returned. Parameters:
///   in_proj_weight [3 size,size]   rows of q, k and v in this order, xavier_uniform
///   in_proj_bias [3 size]          0
///   out_proj.weight [size,size]    as in Linear
///   out_proj.bias [size]           0
///   nn::MultiheadAttention attention{*this, "attention", 384, 6};
///   y = attention(x);                   // self-attention
///   y = attention(query, x, x, {.attn_mask = mask});
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
  /// A bool mask is true where a query must not look. A floating mask is added to q k^T / sqrt(D),
  /// in the dtype of that product.
  /// A query that may look nowhere (true everywhere, or -inf) gives NaN, also in the gradients of
  /// its sample's keys and values. Let rows of padding look at one place, and ignore their results.
  /// throws: ShapeError, DTypeError.
  Tensor forward(const Tensor& query, const Tensor& key, const Tensor& value,
                 const AttentionMask& mask) override;
  /// Self-attention without a mask.
  Tensor operator()(const Tensor& x) { return (*this)(x, x, x, {}); }
  /// Multiply-adds of the projections of q, k and v and of both matrix products. out_proj counts
  /// its own.
  int64_t macs_of_call(const Tensors& inputs, const Tensors& outputs) const override;

  Parameter in_proj_weight, in_proj_bias;
  Linear out_proj;

 private:
  Tensor heads_of(const Tensor& x, int first, int count) const;

  int64_t size_, heads_;
  double dropout_;
};

}  // namespace lathe::nn
