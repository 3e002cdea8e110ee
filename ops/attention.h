// Scaled dot-product attention (attention.cpp, made of other ops).
#pragma once

#include <optional>

#include "lathe/core/tensor.h"

namespace lathe {

struct AttentionOptions {
  // bool: true where a query may attend; floats: added to the scores. It broadcasts to the scores.
  Tensor mask = {};
  bool causal = false;               // a query attends only to keys up to its own position
  double dropout = 0;                // probability of dropping a weight; pass 0 in evaluation
  std::optional<double> scale = {};  // unset: 1 / sqrt(D)
  bool grouped = false;              // key and value have fewer heads, each for several of query
};

/// softmax(scale * query key^T + mask) value.
///   query  […,L,D]   key  […,S,D]   value  […,S,E], leading dimensions broadcast   →  […,L,E]
///   mask   broadcasts to […,L,S]
/// With `grouped`, query's number of heads (dimension -3) must be a multiple of key's and value's.
/// If the mask hides every key from a query (all false, or all its sums with the scores are -inf),
/// the query's result is 0.
/// dtypes: floats.   grad: query, key, value, mask, twice differentiable.   amp: half.
/// throws: ShapeError, DTypeError, ValueError (dropout outside [0, 1]).
/// ref: Vaswani et al. 2017 (arXiv:1706.03762); torch.nn.functional.scaled_dot_product_attention.
LATHE_API Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key,
                                              const Tensor& value,
                                              const AttentionOptions& options = {});

}  // namespace lathe
