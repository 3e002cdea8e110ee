// Multi-head attention: projections, heads as a dimension of the batch, products.
#include "lathe/nn/attention.h"

#include <cmath>
#include <limits>

#include "lathe/nn/init.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/dropout.h"
#include "lathe/ops/matmul.h"
#include "lathe/ops/softmax.h"
#include "lathe/ops/views.h"

namespace lathe::nn {

MultiheadAttention::MultiheadAttention(int64_t size, int64_t heads,
                                       const MultiheadAttentionOptions& options)
    : out_proj(*this, "out_proj", size, size, {.bias = options.bias}),
      size_(size),
      heads_(heads),
      dropout_(options.dropout) {
  LATHE_CHECK(ValueError, size > 0 && heads > 0 && size % heads == 0, "MultiheadAttention: ", heads,
              " heads do not divide a size of ", size);
  LATHE_CHECK(ValueError, dropout_ >= 0 && dropout_ <= 1,
              "MultiheadAttention: dropout must be in [0,1], got ", dropout_);
  in_proj_weight = parameter("in_proj_weight", empty({3 * size, size}));
  init::xavier_uniform_(in_proj_weight);
  if (!options.bias) return;
  in_proj_bias = parameter("in_proj_bias", zeros({3 * size}));
  init::zeros_(out_proj.bias);
}

/// [N,T,size] → [count,N,heads,T,size/heads]: projections first … first + count - 1 of q, k, v.
Tensor MultiheadAttention::heads_of(const Tensor& x, int first, int count) const {
  const auto rows = [&](const Tensor& all) {
    return all.defined() && count < 3 ? narrow(all, 0, first * size_, count * size_) : all;
  };
  const Tensor y = linear(x, rows(in_proj_weight), rows(in_proj_bias));
  return permute(view(y, {x.dim(0), x.dim(1), count, heads_, size_ / heads_}), {2, 0, 3, 1, 4});
}

Tensor MultiheadAttention::forward(const Tensor& query, const Tensor& key, const Tensor& value,
                                   const AttentionMask& masks) {
  const auto fits = [&](const Tensor& t) { return t.ndim() == 3 && t.dim(2) == size_; };
  LATHE_CHECK(
      ShapeError,
      fits(query) && fits(key) && key.shape() == value.shape() && key.dim(0) == query.dim(0),
      "MultiheadAttention: query must be [N,L,", size_, "], key and value [N,S,", size_,
      "] (query: ", query, ", key: ", key, ", value: ", value, ")");
  Tensor q, k, v;
  if (query.is_same(key) && key.is_same(value)) {
    const Tensor all = heads_of(query, 0, 3);
    q = select(all, 0, 0);
    k = select(all, 0, 1);
    v = select(all, 0, 2);
  } else {
    q = select(heads_of(query, 0, 1), 0, 0);
    k = select(heads_of(key, 1, 1), 0, 0);
    v = select(heads_of(value, 2, 1), 0, 0);
  }
  const double scale = 1 / std::sqrt(static_cast<double>(size_ / heads_));
  const Tensor& mask = masks.attn_mask;
  Tensor scores = matmul(mul(q, scale), transpose(k, -2, -1));  // [N,heads,L,S]
  if (mask.defined() && mask.dtype() == kBool) {
    scores = scores.masked_fill(mask, -std::numeric_limits<double>::infinity());
  } else if (mask.defined()) {
    LATHE_CHECK(DTypeError, is_floating(mask.dtype()),
                "MultiheadAttention: expected a mask of bool or floats (mask: ", mask, ")");
    scores = add(scores, cast(mask, scores.dtype()));
  }
  const Tensor weights = dropout(softmax(scores, -1), {.p = dropout_, .train = is_training()});
  const Tensor heads = transpose(matmul(weights, v), 1, 2);  // [N,L,heads,size/heads]
  return out_proj(reshape(heads, query.shape()));
}

int64_t MultiheadAttention::macs_of_call(const Tensors& inputs, const Tensors&) const {
  const Tensor &query = inputs[0], &key = inputs[1];  // [N,L,size], [N,S,size]
  const int64_t projections = query.numel() * size_ + 2 * key.numel() * size_;
  return projections + 2 * query.numel() * key.dim(1);  // q k^T, and the weights times v
}

}  // namespace lathe::nn
