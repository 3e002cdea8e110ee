// Attention of bf16 in tile registers: the backward pass. Contract: attention_bf16.h.
//
// As in the forward pass, products have 32 columns and scores lie as keys by queries:
//   scores^T = K Q^T     dP^T = V dY^T
//   dV += P^T dY         dK += dS^T Q         dQ^T += K^T dS^T
#include <optional>

#include "lathe/ops/matmul_kernels/attention_bf16_call.h"
#include "lathe/ops/matmul_kernels/attention_tasks.h"

namespace lathe::cpu {

namespace {

using attention_rows::kInf;
using Bits = Bf16Attention::Bits;

float value_of(Bits bits) { return half_detail::float_from_bfloat16(bits); }

struct Bf16Gradients {
  Bits *dq, *dk, *dv;
};

/// Keys and values as rows, and keys as rows along the keys.
class BackwardKeys {
 public:
  BackwardKeys(const Bf16Attention& a, int64_t heads)
      : rows_size_(a.wide_S * a.wide_D),
        turned_size_(a.key_row * a.wide_D),
        values_size_(a.wide_S * a.wide_E),
        rows_(attention_memory<Bits>(memory_, heads * rows_size_)),
        turned_(attention_memory<Bits>(memory_, heads * turned_size_)),
        values_(attention_memory<Bits>(memory_, heads * values_size_)) {}

  static int64_t rows(const Bf16Attention& a) { return a.wide_S; }
  void copy(const Bf16Attention& a, int64_t place, int64_t head, int64_t first) {
    const Bf16Attention::Block keys = a.block(a.keys(head), first);
    a.copy_rows(rows_ + place * rows_size_ + first * a.wide_D, keys, a.D);
    a.kernels.products.transpose(turned_ + place * turned_size_ + first, a.key_row, keys.rows, a.D,
                                 a.wide_D);
    a.copy_rows(values_ + place * values_size_ + first * a.wide_E, a.block(a.values(head), first),
                a.E);
  }
  const Bits* keys(int64_t place) const { return rows_ + place * rows_size_; }
  const Bits* turned(int64_t place) const { return turned_ + place * turned_size_; }
  const Bits* values(int64_t place) const { return values_ + place * values_size_; }

 private:
  std::vector<Tensor> memory_;
  int64_t rows_size_, turned_size_, values_size_;
  Bits *rows_, *turned_, *values_;
};

/// Queries and dy, both as columns and as terms of products; and what a row of weights needs.
class BackwardQueries {
 public:
  BackwardQueries(const Bf16Attention& a, int64_t heads)
      : q_size_(a.wide_L * a.wide_D),
        dy_size_(a.wide_L * a.wide_E),
        rows_(a.wide_L),
        q_columns_(attention_memory<Bits>(memory_, heads * q_size_)),
        q_terms_(attention_memory<Bits>(memory_, heads * q_size_)),
        dy_columns_(attention_memory<Bits>(memory_, heads * dy_size_)),
        dy_terms_(attention_memory<Bits>(memory_, heads * dy_size_)),
        logs_(attention_memory<float>(memory_, heads * rows_)),
        delta_(attention_memory<float>(memory_, heads * rows_)) {}

  static int64_t rows(const Bf16Attention& a) { return a.wide_L; }
  const Bits* q_columns(int64_t place) const { return q_columns_ + place * q_size_; }
  const Bits* q_terms(int64_t place) const { return q_terms_ + place * q_size_; }
  const Bits* dy_columns(int64_t place) const { return dy_columns_ + place * dy_size_; }
  const Bits* dy_terms(int64_t place) const { return dy_terms_ + place * dy_size_; }
  const float* logs(int64_t place) const { return logs_ + place * rows_; }
  const float* delta(int64_t place) const { return delta_ + place * rows_; }

  void copy(const Bf16Attention& a, int64_t place, int64_t head, int64_t first) {
    const AmxKernels& products = a.kernels.products;
    const Bf16Attention::Block q = a.block(a.queries(head), first);
    const Bf16Attention::Block dy = a.block({a.dy + head * a.L * a.E, a.L, a.E}, first);
    const int64_t of_q = place * q_size_, of_dy = place * dy_size_;
    products.columns(q_columns_ + of_q + first * a.wide_D, q.rows, a.D);
    products.interleave(q_terms_ + of_q + first * kAttentionBlock, a.wide_L * kAttentionBlock,
                        q.rows, a.D);
    products.columns(dy_columns_ + of_dy + first * a.wide_E, dy.rows, a.E);
    products.interleave(dy_terms_ + of_dy + first * kAttentionBlock, a.wide_L * kAttentionBlock,
                        dy.rows, a.E);
    for (int64_t i = first; i < first + kAttentionBlock; ++i) {
      float &log = logs_[place * rows_ + i], &delta = delta_[place * rows_ + i];
      log = kInf<float>;  // rows behind the last have no weights
      delta = 0;
      if (i >= a.L) continue;
      log = a.logsumexp[head * a.L + i];
      const Bits* const y = a.y + (head * a.L + i) * a.E;
      for (int64_t e = 0; e < a.E; ++e) delta += value_of(y[e]) * value_of(dy.rows[i - first][e]);
    }
  }

 private:
  std::vector<Tensor> memory_;
  int64_t q_size_, dy_size_, rows_;
  Bits *q_columns_, *q_terms_, *dy_columns_, *dy_terms_;
  float *logs_, *delta_;
};

/// A thread's part of the backward pass (share_out_gradients()).
class Bf16Backward {
 public:
  /// Sums are kept for a whole head if there are no copies of all heads, else for a tile.
  Bf16Backward(const Bf16Attention& a, const CopiedHeads<BackwardKeys>* all_keys,
               const CopiedHeads<BackwardQueries>* all_queries, const Bf16Gradients& grads)
      : a_(a),
        keys_(a, all_keys),
        queries_(a, all_queries),
        grads_(grads),
        summed_keys_(all_keys == nullptr ? a.wide_S : std::min(a.wide_S, kKeys)),
        summed_queries_(all_keys == nullptr ? a.wide_L : std::min(a.wide_L, kQueries)) {}

  void add_head(int64_t m) { add(m, 0, a_.S, true); }
  void add_keys(int64_t m, int64_t tile) {
    add(m, tile * kKeys, std::min(a_.S, (tile + 1) * kKeys), false);
  }
  void add_queries(int64_t h, int64_t tile) {
    const AmxScope products(a_.kernels.products, kAttentionBlock);
    const int64_t begin = tile * kQueries, end = std::min(a_.L, begin + kQueries);
    use(h, 0, begin);
    std::fill_n(dq_, summed_queries_ * a_.wide_D, 0.0f);
    for (int64_t j = 0; j < a_.S; j += kKeys) add_tile(h, begin, j, false, true);
    write_queries(h, begin, end);
  }

 private:
  static constexpr int64_t kQueries = Bf16Attention::kQueries, kKeys = Bf16Attention::kKeys;

  /// Uses the copies of head h, and sums from these keys and queries on.
  void use(int64_t h, int64_t first_key, int64_t first_query) {
    k_ = keys_.place_of(a_, a_.shared_of(h));
    q_ = queries_.place_of(a_, h);
    first_key_ = first_key;
    first_query_ = first_query;
  }

  /// All that keys [begin, end) of head m take part in.
  void add(int64_t m, int64_t begin, int64_t end, bool of_queries) {
    const AmxScope products(a_.kernels.products, kAttentionBlock);
    std::fill_n(dk_, summed_keys_ * a_.wide_D, 0.0f);
    std::fill_n(dv_, summed_keys_ * a_.wide_E, 0.0f);
    const int64_t group = a_.heads / a_.shared;
    for (int64_t h = m * group; h < (m + 1) * group; ++h) {
      use(h, begin, 0);
      if (of_queries) std::fill_n(dq_, summed_queries_ * a_.wide_D, 0.0f);
      for (int64_t j = begin; j < end; j += kKeys) {
        for (int64_t i = 0; i < a_.L; i += kQueries) add_tile(h, i, j, true, of_queries);
      }
      if (of_queries) write_queries(h, 0, a_.L);
    }
    write_rows(grads_.dk + m * a_.S * a_.D, dk_, begin, end, a_.D,
               static_cast<float>(a_.how.scale));
    write_rows(grads_.dv + m * a_.S * a_.E, dv_, begin, end, a_.E, 1);
  }

  /// Adds what kQueries queries of head h from i and kKeys keys from j contribute.
  void add_tile(int64_t h, int64_t i, int64_t j, bool of_keys, bool of_queries) {
    const int64_t queries = std::min(kQueries, a_.wide_L - i);
    const int64_t keys = std::min(kKeys, a_.wide_S - j);
    if (a_.keys_of(i + queries) <= j) return;
    for (int64_t r = 0; r < queries; r += kAttentionBlock) {
      for (int64_t c = 0; c < keys; c += kAttentionBlock) make_gradients(h, i, r, j, c);
    }
    if (of_keys) {
      const Bits* const dy = queries_.copies().dy_terms(q_) + i * kAttentionBlock;
      const Bits* const q = queries_.copies().q_terms(q_) + i * kAttentionBlock;
      for (int64_t c = 0; c < keys; c += kAttentionBlock) {
        const int64_t at = c * kQueries, row = j + c - first_key_;
        for (int64_t e = 0; e < a_.wide_E; e += kAttentionBlock) {
          a_.multiply(dv_ + row * a_.wide_E + e * kAttentionBlock, weights_ + at, kQueries,
                      dy + e * a_.wide_L, queries, true);
        }
        for (int64_t d = 0; d < a_.wide_D; d += kAttentionBlock) {
          a_.multiply(dk_ + row * a_.wide_D + d * kAttentionBlock, d_scores_ + at, kQueries,
                      q + d * a_.wide_L, queries, true);
        }
      }
    }
    if (!of_queries) return;
    const Bits* const turned = keys_.copies().turned(k_) + j;
    for (int64_t r = 0; r < queries; r += kAttentionBlock) {
      float* const dq = dq_ + (i + r - first_query_) * a_.wide_D;
      for (int64_t d = 0; d < a_.wide_D; d += kAttentionBlock) {
        a_.multiply(dq + d * kAttentionBlock, turned + d * a_.key_row, a_.key_row,
                    d_pairs_ + r * kKeys, keys, true);
      }
    }
  }

  /// Weights and gradients of the scores of 32 keys, c of those from j, and 32 queries.
  void make_gradients(int64_t h, int64_t i, int64_t r, int64_t j, int64_t c) {
    float scores[kAttentionBlock * kAttentionBlock], d_weights[kAttentionBlock * kAttentionBlock];
    const int64_t query = i + r, key = j + c;
    const int64_t n =
        std::clamp(a_.keys_of(query + kAttentionBlock) - key, int64_t{0}, kAttentionBlock);
    if (n > 0) {
      a_.multiply(scores, keys_.copies().keys(k_) + key * a_.wide_D, a_.wide_D,
                  queries_.copies().q_columns(q_) + query * a_.wide_D, a_.wide_D, false);
      a_.multiply(d_weights, keys_.copies().values(k_) + key * a_.wide_E, a_.wide_E,
                  queries_.copies().dy_columns(q_) + query * a_.wide_E, a_.wide_E, false);
      a_.finish(scores, h, query, key, n);
    }
    a_.kernels.tiles.differentiate({.scores = scores,
                                    .d_weights = d_weights,
                                    .keys = n,
                                    .scale = a_.scale,
                                    .logs = queries_.copies().logs(q_) + query,
                                    .delta = queries_.copies().delta(q_) + query,
                                    .weights = weights_ + c * kQueries + r,
                                    .d_scores = d_scores_ + c * kQueries + r,
                                    .step = kQueries,
                                    .d_pairs = d_pairs_ + r * kKeys + c * kAttentionBlock});
  }

  /// Rows [begin, end), of which sums has blocks [rows / 32, width / 32, 32, 32].
  static void write_rows(Bits* to, const float* sums, int64_t begin, int64_t end, int64_t width,
                         float factor) {
    const int64_t wide = round_up(width, kAttentionBlock);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = i - begin;
      const float* const block = sums + row / kAttentionBlock * kAttentionBlock * wide +
                                 row % kAttentionBlock * kAttentionBlock;
      for (int64_t d = 0; d < width; ++d) {
        to[i * width + d] = half_detail::bfloat16_from_float(
            factor *
            block[d / kAttentionBlock * kAttentionBlock * kAttentionBlock + d % kAttentionBlock]);
      }
    }
  }

  void write_queries(int64_t h, int64_t begin, int64_t end) const {
    float factors[kAttentionBlock];
    std::fill_n(factors, kAttentionBlock, static_cast<float>(a_.how.scale));
    for (int64_t i = begin; i < end; i += kAttentionBlock) {
      a_.kernels.tiles.write_columns(grads_.dq + (h * a_.L + i) * a_.D,
                                     dq_ + (i - first_query_) * a_.wide_D, factors,
                                     std::min(kAttentionBlock, end - i), a_.D);
    }
  }

  const Bf16Attention& a_;
  CopiedHeads<BackwardKeys> keys_;
  CopiedHeads<BackwardQueries> queries_;
  const Bf16Gradients grads_;
  const int64_t summed_keys_, summed_queries_;
  int64_t k_ = 0, q_ = 0;                    // places of the copies
  int64_t first_key_ = 0, first_query_ = 0;  // of the sums
  std::vector<Tensor> memory_;
  float* const dk_ = attention_memory<float>(memory_, summed_keys_* a_.wide_D);
  float* const dv_ = attention_memory<float>(memory_, summed_keys_* a_.wide_E);
  float* const dq_ = attention_memory<float>(memory_, summed_queries_* a_.wide_D);  // dQ^T
  // Of a tile.
  Bits* const weights_ = attention_memory<Bits>(memory_, kKeys* kQueries);
  Bits* const d_scores_ = attention_memory<Bits>(memory_, kKeys* kQueries);
  Bits* const d_pairs_ = attention_memory<Bits>(memory_, kKeys* kQueries);
};

}  // namespace

void attention_backward_bf16(const Bf16AttentionKernels& kernels, const AttentionGradients& grads,
                             const Tensor& dy, const Tensor& y, const Tensor& logsumexp,
                             const Tensor& q, const Tensor& k, const Tensor& v,
                             const TiledAttention& how) {
  Bf16Attention a(kernels, q, k, v, how);
  a.dy = Bf16Attention::bits(dy);
  a.y = Bf16Attention::bits(y);
  a.logsumexp = logsumexp.data<float>();
  const GradientTasks tasks{.heads = a.heads,
                            .shared = a.shared,
                            .query_tiles = ceil_div(a.L, Bf16Attention::kQueries),
                            .key_tiles = ceil_div(a.S, Bf16Attention::kKeys),
                            .work = a.heads / a.shared * a.L * a.S * (3 * a.D + 2 * a.E)};
  std::optional<CopiedHeads<BackwardKeys>> all_keys;
  std::optional<CopiedHeads<BackwardQueries>> all_queries;
  if (!shares_out_heads(tasks)) {
    all_keys.emplace(a, a.shared);
    all_queries.emplace(a, a.heads);
  }
  const Bf16Gradients to{Bf16Attention::bits(grads.dq), Bf16Attention::bits(grads.dk),
                         Bf16Attention::bits(grads.dv)};
  share_out_gradients(tasks, [&] {
    return Bf16Backward(a, all_keys ? &*all_keys : nullptr, all_queries ? &*all_queries : nullptr,
                        to);
  });
}

}  // namespace lathe::cpu
