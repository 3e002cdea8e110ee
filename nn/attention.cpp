// Multi-head attention: projections, and heads as a dimension of the batch.
#include "lathe/nn/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "lathe/autograd/grad_mode.h"
#include "lathe/nn/init.h"
#include "lathe/ops/attention.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/dropout.h"
#include "lathe/ops/inplace.h"
#include "lathe/ops/matmul.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/softmax.h"
#include "lathe/ops/triangle.h"
#include "lathe/ops/views.h"
#include "lathe/ops/where.h"

namespace lathe::nn {

namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

/// What `mask` adds to scores of that dtype.
Tensor as_scores(const Tensor& mask, DType dtype) {
  if (mask.dtype() != kBool) return cast(mask, dtype);
  const Tensor none = zeros(mask.shape(), {.dtype = dtype, .device = mask.device()});
  return masked_fill(none, mask, kNever);
}

/// Keys up to a query's own are seen: bool [L,S], where the last queries are those of the last keys
/// if `at_end`.
Tensor causal_mask(int64_t L, int64_t S, bool at_end, Device device) {
  return tril(ones({L, S}, {.dtype = kBool, .device = device}), at_end ? S - L : 0);
}

}  // namespace

KeyValueCache::KeyValueCache(const KeyValueCache& other) : length_(other.length_) {
  if (length_ == 0) return;
  const NoGrad off;
  keys_ = narrow(other.keys_, 2, 0, length_).clone();
  values_ = narrow(other.values_, 2, 0, length_).clone();
}

KeyValueCache& KeyValueCache::operator=(const KeyValueCache& other) {
  return *this = KeyValueCache(other);
}

void KeyValueCache::truncate(int64_t length) {
  LATHE_CHECK(ValueError, length >= 0 && length <= length_, "KeyValueCache: truncate(", length,
              ") of ", length_, " tokens");
  if (length == 0) clear();
  length_ = length;
}

std::pair<Tensor, Tensor> KeyValueCache::append(const Tensor& key, const Tensor& value) {
  const auto fits = [&](const Tensor& held, const Tensor& fresh) {
    return !held.defined() || (held.dim(0) == fresh.dim(0) && held.dim(1) == fresh.dim(1) &&
                               held.dim(3) == fresh.dim(3));
  };
  LATHE_CHECK(ShapeError,
              key.ndim() == 4 && value.ndim() == 4 && key.dim(2) == value.dim(2) &&
                  fits(keys_, key) && fits(values_, value),
              "KeyValueCache: the new keys and values do not fit the ", length_,
              " tokens of the cache (key: ", key, ", value: ", value, ", cache: ", keys_, ")");
  for (const auto& [held, fresh] : {std::pair{keys_, key}, std::pair{values_, value}}) {
    if (!held.defined()) continue;
    LATHE_CHECK(DTypeError, fresh.dtype() == held.dtype(), "KeyValueCache: ", fresh,
                " has another dtype than the tokens of the cache, ", held);
    LATHE_CHECK(DeviceError, fresh.device() == held.device(), "KeyValueCache: ", fresh,
                " is on another device than the tokens of the cache, ", held);
  }
  const NoGrad off;
  const int64_t count = key.dim(2), total = length_ + count;
  const auto with_room = [&](const Tensor& held, const Tensor& fresh) {
    if (held.defined() && total <= held.dim(2)) return held;
    Shape shape = fresh.shape();
    shape[2] = std::max(2 * (held.defined() ? held.dim(2) : 0), total);
    const Tensor wider = empty(shape, {.dtype = fresh.dtype(), .device = fresh.device()});
    if (length_ > 0) narrow(wider, 2, 0, length_).copy_(narrow(held, 2, 0, length_));
    return wider;
  };
  const Tensor keys = with_room(keys_, key), values = with_room(values_, value);
  narrow(keys, 2, length_, count).copy_(key);
  narrow(values, 2, length_, count).copy_(value);
  const std::pair all{narrow(keys, 2, 0, total), narrow(values, 2, 0, total)};
  // Nothing throws from here on: a cache never has more keys than values.
  keys_ = keys;
  values_ = values;
  length_ = total;
  return all;
}

Tensor detail::decode_with(std::span<KeyValueCache> caches, FunctionRef<Tensor()> f) {
  std::vector<int64_t> lengths;
  for (const KeyValueCache& cache : caches) lengths.push_back(cache.length());
  try {
    return f();
  } catch (...) {
    for (size_t i = 0; i < caches.size(); ++i) caches[i].truncate(lengths[i]);
    throw;
  }
}

MultiheadAttention::MultiheadAttention(int64_t size, int64_t heads,
                                       const MultiheadAttentionOptions& options)
    : out_proj(*this, "out_proj", size, size, {.bias = options.bias}),
      size_(size),
      heads_(heads),
      options_(options) {
  LATHE_CHECK(ValueError, size > 0 && heads > 0 && size % heads == 0, "MultiheadAttention: ", heads,
              " heads do not divide a size of ", size);
  LATHE_CHECK(ValueError, options.dropout >= 0 && options.dropout <= 1,
              "MultiheadAttention: dropout must be in [0,1], got ", options.dropout);
  in_proj_weight = parameter("in_proj_weight", empty({3 * size, size}));
  init::xavier_uniform_(in_proj_weight);
  if (!options.bias) return;
  in_proj_bias = parameter("in_proj_bias", zeros({3 * size}));
  init::zeros_(out_proj.bias);
}

/// [N,T,size] → [count,N,heads,T,size/heads]: projections first … first + count - 1 of q, k, v.
Tensor MultiheadAttention::projected(const Tensor& x, int first, int count) const {
  const auto rows = [&](const Tensor& all) {
    return all.defined() && count < 3 ? narrow(all, 0, first * size_, count * size_) : all;
  };
  const Tensor y = linear(x, rows(in_proj_weight), rows(in_proj_bias));
  return permute(view(y, {x.dim(0), x.dim(1), count, heads_, size_ / heads_}), {2, 0, 3, 1, 4});
}

MultiheadAttention::Heads MultiheadAttention::heads_of(const Tensor& query, const Tensor& key,
                                                       const Tensor& value) const {
  const int batch = options_.batch_first ? 0 : 1;
  const auto fits = [&](const Tensor& t) {
    return (t.ndim() == 3 || t.ndim() == 2) && t.dim(-1) == size_;
  };
  LATHE_CHECK(ShapeError,
              fits(query) && fits(key) && key.shape() == value.shape() &&
                  key.ndim() == query.ndim() &&
                  (key.ndim() == 2 || key.dim(batch) == query.dim(batch)),
              "MultiheadAttention: query must be ", batch == 0 ? "[N,L," : "[L,N,", size_,
              "], key and value ", batch == 0 ? "[N,S," : "[S,N,", size_, "] (query: ", query,
              ", key: ", key, ", value: ", value, ")");
  const auto batches = [&](const Tensor& t) {
    if (t.ndim() == 2) return unsqueeze(t, 0);
    return batch == 0 ? t : transpose(t, 0, 1);
  };
  if (query.is_same(key) && key.is_same(value)) {
    const Tensor all = projected(batches(query), 0, 3);
    return {select(all, 0, 0), select(all, 0, 1), select(all, 0, 2)};
  }
  return {select(projected(batches(query), 0, 1), 0, 0),
          select(projected(batches(key), 1, 1), 0, 0),
          select(projected(batches(value), 2, 1), 0, 0)};
}

/// attn_mask and key_padding_mask as one mask of scaled_dot_product_attention, or undefined.
Tensor MultiheadAttention::combined_mask(const AttentionMask& masks, const Heads& heads) const {
  const int64_t N = heads.q.dim(0), S = heads.k.dim(2);
  Tensor attn = masks.attn_mask, padding = masks.key_padding_mask;
  for (const Tensor& mask : {attn, padding}) {
    LATHE_CHECK(DTypeError, !mask.defined() || mask.dtype() == kBool || is_floating(mask.dtype()),
                "MultiheadAttention: expected a mask of bool or floats (mask: ", mask, ")");
  }
  if (attn.defined() && attn.ndim() == 3) {
    LATHE_CHECK(ShapeError, attn.dim(0) == 1 || attn.dim(0) == N * heads_,
                "MultiheadAttention: an attn_mask [·,L,S] must begin with N*heads = ", N * heads_,
                " or with 1; one for each sample is [", N, ",1,L,S], one for each head [1,", heads_,
                ",L,S] (attn_mask: ", attn, ")");
    if (attn.dim(0) > 1) attn = reshape(attn, {N, heads_, attn.dim(1), attn.dim(2)});
  }
  if (padding.defined()) {
    LATHE_CHECK(ShapeError, padding.numel() == N * S && padding.dim(-1) == S,
                "MultiheadAttention: expected a key_padding_mask of [", N, ",", S,
                "] (key_padding_mask: ", padding, ")");
    padding = reshape(padding, {N, 1, 1, S});
  }
  const auto is_bool = [](const Tensor& t) { return !t.defined() || t.dtype() == kBool; };
  if (is_bool(attn) && is_bool(padding)) {
    if (!attn.defined() && !padding.defined()) return {};
    if (!attn.defined() || !padding.defined()) return logical_not(attn.defined() ? attn : padding);
    return logical_not(logical_or(attn, padding));
  }
  const DType dtype = heads.q.dtype();
  if (!attn.defined() || !padding.defined())
    return as_scores(attn.defined() ? attn : padding, dtype);
  return add(as_scores(attn, dtype), as_scores(padding, dtype));
}

/// The heads' results [N,heads,L,D] in the layout of query, projected.
Tensor MultiheadAttention::joined(const Tensor& heads, const Tensor& query) {
  const bool batch_first = options_.batch_first || query.ndim() == 2;
  return out_proj(
      reshape(permute(heads, batch_first ? Dims{0, 2, 1, 3} : Dims{2, 0, 1, 3}), query.shape()));
}

Tensor MultiheadAttention::forward(const Tensor& query, const Tensor& key, const Tensor& value,
                                   const AttentionMask& masks) {
  const Heads h = heads_of(query, key, value);
  const double dropout = is_training() ? options_.dropout : 0;
  return joined(
      scaled_dot_product_attention(
          h.q, h.k, h.v,
          {.mask = combined_mask(masks, h), .causal = masks.is_causal, .dropout = dropout}),
      query);
}

std::pair<Tensor, Tensor> MultiheadAttention::with_weights(const Tensor& query, const Tensor& key,
                                                           const Tensor& value,
                                                           const AttentionMask& masks,
                                                           const AttentionWeightsOptions& opt) {
  std::optional<std::pair<Tensor, Tensor>> result;
  call([&] {
    const Heads h = heads_of(query, key, value);
    const double scale = 1 / std::sqrt(static_cast<double>(size_ / heads_));
    Tensor scores = matmul(mul(h.q, scale), transpose(h.k, -2, -1));  // [N,heads,L,S]
    if (Tensor mask = combined_mask(masks, h); mask.defined()) {
      if (mask.dtype() == kBool) mask = logical_not(mask);
      scores = add(scores, as_scores(mask, scores.dtype()));
    }
    if (masks.is_causal) {
      const Tensor seen = causal_mask(scores.dim(2), scores.dim(3), false, scores.device());
      scores = masked_fill(scores, logical_not(seen), kNever);
    }
    // A row of -inf has no softmax.
    const Tensor blind = eq(amax(scores, {-1}, {.keepdim = true}), kNever);
    Tensor weights = masked_fill(softmax(masked_fill(scores, blind, 0), -1), blind, 0);
    weights = dropout(cast(weights, h.v.dtype()), {.p = options_.dropout, .train = is_training()});
    const Tensor y = joined(matmul(weights, h.v), query);
    if (opt.average_attn_weights) weights = mean(weights, {1});
    if (query.ndim() == 2) weights = squeeze(weights, 0);
    result = {y, weights};
    if (has_hooks()) run_call_hooks(tensors_in(query, key, value, masks), {y, weights});
  });
  return *std::move(result);
}

Tensor MultiheadAttention::decode(const Tensor& x, KeyValueCache& cache) {
  const NoGrad off;
  return detail::decode_with({&cache, 1}, [&] {
    return with_call_hooks({x, x, x}, [&] {
      const Heads h = heads_of(x, x, x);
      const auto [k, v] = cache.append(h.k, h.v);
      const int64_t L = h.q.dim(2), S = k.dim(2);
      const Tensor mask = L == 1 ? Tensor() : causal_mask(L, S, true, x.device());
      return Tensors{joined(scaled_dot_product_attention(h.q, k, v, {.mask = mask}), x)};
    })[0];
  });
}

int64_t MultiheadAttention::macs_of_call(const Tensors& inputs, const Tensors&) const {
  const Tensor &query = inputs[0], &key = inputs[1];  // [N,L,size], [N,S,size]
  const int64_t S = key.dim(key.ndim() == 2 || !options_.batch_first ? 0 : 1);
  const int64_t projections = query.numel() * size_ + 2 * key.numel() * size_;
  return projections + 2 * query.numel() * S;  // q k^T, and the weights times v
}

}  // namespace lathe::nn
