// Attention of bf16 in tile registers: the order of the products. Contract: attention_bf16.h.
//
// All products have 32 queries or 32 numbers of a head as columns, and scores lie as keys by
// queries. So softmax works on whole vectors, and weights leave it as the operand that comes next:
//   scores^T = K Q^T     y^T  = V^T P^T
//   dP^T = V dY^T        dV  += P^T dY     dK += dS^T Q     dQ^T += K^T dS^T
// The operands that are not rows of the inputs are copied once for each head.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "lathe/core/ceil_div.h"
#include "lathe/core/half.h"
#include "lathe/core/hooks/memory_tag.h"
#include "lathe/ops/matmul_kernels/attention_bf16.h"
#include "lathe/ops/matmul_kernels/attention_rows.h"
#include "lathe/ops/matmul_kernels/attention_tasks.h"

namespace lathe::cpu {

namespace {

using attention_rows::kInf;
using attention_rows::rest_of_scale;
using attention_rows::scales_first;
using Bits = uint16_t;  // of a bf16

constexpr int64_t kBlock = kAmxBlock, kBlockSums = kBlock * kBlock;
static_assert(kTileQueries == kBlock);
// A tile of the forward pass: 256 keys stay in the second-level cache for 128 queries.
constexpr int64_t kTaskQueries = 128, kTaskKeys = 256;
// Of the backward pass.
constexpr int64_t kGradQueries = 128, kGradKeys = 256;
constexpr float kLog2E = std::numbers::log2e_v<float>;

float bf16_value(Bits bits) { return half_detail::float_from_bfloat16(bits); }
Bits bf16_rounded(float x) { return half_detail::bfloat16_from_float(x); }

template <class T>
T* attention_memory(std::vector<Tensor>& memory, int64_t elements) {
  const profile::MemoryTagScope workspace(profile::MemoryTag::kWorkspace);
  memory.push_back(empty({elements * static_cast<int64_t>(sizeof(T))}, {.dtype = kU8}));
  return reinterpret_cast<T*>(memory.back().data<uint8_t>());
}

const Bits* bits_of(const Tensor& t) { return reinterpret_cast<const Bits*>(t.data<BFloat16>()); }

/// A matrix of a head: dense rows.
struct HeadRows {
  const Bits* data;
  int64_t rows, width;
};

/// One call. `wide` sizes are multiples of 32; the copies hold zeros there.
struct Bf16Attention {
  Bf16Attention(const Bf16AttentionKernels& kernels_in, const Tensor& q_in, const Tensor& k_in,
                const Tensor& v_in, const TiledAttention& how_in)
      : kernels(kernels_in),
        how(how_in),
        q(bits_of(q_in)),
        k(bits_of(k_in)),
        v(bits_of(v_in)),
        heads(q_in.dim(0)),
        group(q_in.dim(0) / k_in.dim(0)),
        L(q_in.dim(1)),
        S(k_in.dim(1)),
        D(q_in.dim(2)),
        E(v_in.dim(2)),
        zeros(static_cast<size_t>(std::max(D, E))) {}

  const Bf16AttentionKernels& kernels;
  const TiledAttention& how;
  const Bits *q, *k, *v;
  int64_t heads, group, L, S, D, E;
  const std::vector<Bits> zeros;
  const int64_t wide_L = round_up(L, kBlock), wide_S = round_up(S, kBlock);
  const int64_t wide_D = round_up(D, kBlock), wide_E = round_up(E, kBlock);
  // Rows of keys as terms. Rows 4 KiB apart would share their places in the first-level cache.
  const int64_t key_row = wide_S + kBlock;

  HeadRows queries(int64_t h) const { return {q + h * L * D, L, D}; }
  HeadRows keys(int64_t m) const { return {k + m * S * D, S, D}; }
  HeadRows values(int64_t m) const { return {v + m * S * E, S, E}; }

  /// What finished scores are multiplied by in the exponent to base 2.
  float factor() const { return kLog2E * rest_of_scale<float>(how); }

  /// Keys that the queries before `end` may see.
  int64_t keys_of(int64_t end) const { return how.causal ? std::min(S, end) : S; }

  /// Calls body(first, rows) for each 32 rows, with pointers to zeros behind the last.
  template <class Body>
  void for_rows(const HeadRows& x, const Body& body) const {
    const Bits* rows[kBlock];
    for (int64_t first = 0; first < x.rows; first += kBlock) {
      for (int64_t i = 0; i < kBlock; ++i)
        rows[i] = first + i < x.rows ? x.data + (first + i) * x.width : zeros.data();
      body(first, rows);
    }
  }
  void copy_rows(Bits* to, const HeadRows& x) const {
    const int64_t wide = round_up(x.width, kBlock);
    for_rows(x, [&](int64_t first, const Bits* const* rows) {
      for (int64_t i = 0; i < kBlock; ++i) {
        Bits* const row = to + (first + i) * wide;
        std::copy_n(rows[i], x.width, row);
        std::fill(row + x.width, row + wide, Bits{0});
      }
    });
  }
  void copy_transposed(Bits* to, int64_t step, const HeadRows& x) const {
    for_rows(x, [&](int64_t first, const Bits* const* rows) {
      kernels.products.transpose(to + first, step, rows, x.width, round_up(x.width, kBlock));
    });
  }

  /// sums [32,32] (+)= a b
  void multiply(float* sums, const Bits* a, int64_t a_row, const Bits* b, int64_t terms,
                bool add) const {
    kernels.products.multiply({.sums = sums,
                               .rows = kBlock,
                               .a = a,
                               .a_row = a_row,
                               .b = b,
                               .steps = ceil_div(terms, kAmxTerms),
                               .add = add});
  }

  /// As attention_rows::finish_scores(), for [n keys from j, 32 queries from i] of head h.
  void finish(float* scores, int64_t h, int64_t i, int64_t j, int64_t n) const {
    const int64_t rows = std::min(kBlock, L - i);
    if (scales_first(how)) {
      const auto scale = static_cast<float>(how.scale);
      for (int64_t at = 0; at < n * kBlock; ++at) scores[at] *= scale;
    }
    if (how.mask.defined()) add_mask(scores, h, i, rows, j, n);
    if (!how.causal) return;
    for (int64_t key = std::max(j, i + 1); key < j + n; ++key)
      std::fill_n(scores + (key - j) * kBlock, std::min(kBlock, key - i), -kInf<float>);
  }

  void add_mask(float* scores, int64_t h, int64_t i, int64_t rows, int64_t j, int64_t n) const {
    const Tensor& mask = how.mask;
    const int64_t of_query = mask.stride(-2), of_key = mask.stride(-1);
    const int64_t start = attention_rows::matrix_start(mask, h) + i * of_query + j * of_key;
    const bool* const looks = mask.dtype() == kBool ? mask.data<bool>() + start : nullptr;
    const float* const added = looks == nullptr ? mask.data<float>() + start : nullptr;
    const auto least = static_cast<float>(how.least);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t key = 0; key < n; ++key) {
        float& score = scores[key * kBlock + r];
        const int64_t at = r * of_query + key * of_key;
        if (looks != nullptr) {
          score = looks[at] ? score : -kInf<float>;
        } else {
          score += added[at];
          score = score <= least ? -kInf<float> : score;
        }
      }
    }
  }
};

/// A thread's part of the forward pass.
class Bf16Forward {
 public:
  Bf16Forward(const Bf16Attention& a, Bits* y, float* logsumexp)
      : a_(a), y_(y), logsumexp_(logsumexp) {}

  /// Up to kTaskQueries queries of head h from `first`.
  void compute(int64_t h, int64_t first) {
    const AmxScope products(a_.kernels.products, kBlock);
    const int64_t blocks = ceil_div(std::min(kTaskQueries, a_.L - first), kBlock);
    use_head(h / a_.group);
    copy_queries(h, first, blocks);
    std::fill_n(largest_, blocks * kBlock, -kInf<float>);
    std::fill_n(sum_, blocks * kBlock, 0.0f);
    const int64_t keys = a_.keys_of(first + blocks * kBlock);
    for (int64_t j = 0; j < keys; j += kTaskKeys) {
      for (int64_t b = 0; b < blocks; ++b) add_keys(h, first, b, j);
    }
    for (int64_t b = 0; b < blocks; ++b) write(h, first, b);
  }

 private:
  int64_t out_size() const { return a_.wide_E * kBlock; }
  int64_t words() const { return a_.wide_D * kBlock; }

  void use_head(int64_t m) {
    if (m == head_) return;
    a_.copy_rows(keys_, a_.keys(m));
    a_.copy_transposed(values_, a_.key_row, a_.values(m));
    head_ = m;
  }

  void copy_queries(int64_t h, int64_t first, int64_t blocks) {
    HeadRows x = a_.queries(h);
    x.data += first * a_.D;
    x.rows = std::min(blocks * kBlock, a_.L - first);
    a_.for_rows(x, [&](int64_t at, const Bits* const* rows) {
      a_.kernels.products.columns(queries_ + at / kBlock * words(), rows, a_.D);
    });
  }

  /// Goes over kTaskKeys keys from j for 32 queries, block b of those from `first`.
  void add_keys(int64_t h, int64_t first, int64_t b, int64_t j) {
    const int64_t i = first + b * kBlock, keys = std::min(kTaskKeys, a_.keys_of(i + kBlock) - j);
    if (keys <= 0) return;
    for (int64_t at = 0; at < keys; at += kBlock) {
      a_.multiply(scores_ + at * kBlock, keys_ + (j + at) * a_.wide_D, a_.wide_D,
                  queries_ + b * words(), a_.wide_D, false);
    }
    a_.finish(scores_, h, i, j, keys);
    float shrink[kBlock];
    const bool shrinks = a_.kernels.tiles.soften({.scores = scores_,
                                                  .keys = keys,
                                                  .factor = a_.factor(),
                                                  .largest = largest_ + b * kBlock,
                                                  .sum = sum_ + b * kBlock,
                                                  .shrink = shrink,
                                                  .weights = weights_});
    float* const out = out_ + b * out_size();
    if (j > 0 && shrinks) a_.kernels.tiles.scale_columns(out, a_.wide_E, shrink);
    for (int64_t e = 0; e < a_.wide_E; e += kBlock) {
      a_.multiply(out + e * kBlock, values_ + e * a_.key_row + j, a_.key_row, weights_, keys,
                  j > 0);
    }
  }

  void write(int64_t h, int64_t first, int64_t b) const {
    const int64_t i = h * a_.L + first + b * kBlock;
    const int64_t rows = std::min(kBlock, a_.L - first - b * kBlock);
    float factors[kBlock];
    for (int64_t r = 0; r < kBlock; ++r) {
      const float sum = sum_[b * kBlock + r];
      const bool blind = sum == 0;
      factors[r] = blind ? 0 : 1 / sum;
      if (r >= rows) continue;
      const float log = largest_[b * kBlock + r] * rest_of_scale<float>(a_.how) + std::log(sum);
      // A row that sees nothing has weights of exp(-inf - inf) = 0 in the backward pass, too.
      logsumexp_[i + r] = blind ? kInf<float> : log;
    }
    a_.kernels.tiles.write_columns(y_ + i * a_.E, out_ + b * out_size(), factors, rows, a_.E);
  }

  const Bf16Attention& a_;
  Bits* const y_;
  float* const logsumexp_;
  std::vector<Tensor> memory_;
  Bits* const keys_ = attention_memory<Bits>(memory_, a_.wide_S* a_.wide_D);
  Bits* const values_ = attention_memory<Bits>(memory_, a_.key_row* a_.wide_E);  // [E, keys]
  Bits* const queries_ = attention_memory<Bits>(memory_, kTaskQueries / kBlock * words());
  Bits* const weights_ = attention_memory<Bits>(memory_, kTaskKeys* kBlock);
  float* const scores_ = attention_memory<float>(memory_, kTaskKeys* kBlock);
  float* const out_ = attention_memory<float>(memory_, kTaskQueries / kBlock * out_size());  // y^T
  int64_t head_ = -1;
  float largest_[kTaskQueries], sum_[kTaskQueries];
};

/// What the backward pass reads and writes.
struct Bf16Arrays {
  const Bits *dy, *y;
  const float* logsumexp;
  Bits *dq, *dk, *dv;
};

/// A thread's part of the backward pass (share_out_gradients()).
class Bf16Backward {
 public:
  Bf16Backward(const Bf16Attention& a, const Bf16Arrays& b) : a_(a), b_(b) {}

  void add_head(int64_t m) {
    const AmxScope products(a_.kernels.products, kBlock);
    add_keys_between(m, 0, a_.S, true);
    write_keys(m, 0, a_.S);
  }
  void add_keys(int64_t m, int64_t tile) {
    const AmxScope products(a_.kernels.products, kBlock);
    const int64_t begin = tile * kTaskKeys, end = std::min(a_.S, begin + kTaskKeys);
    add_keys_between(m, begin, end, false);
    write_keys(m, begin, end);
  }
  void add_queries(int64_t h, int64_t tile) {
    const AmxScope products(a_.kernels.products, kBlock);
    const int64_t begin = tile * kTaskQueries, end = std::min(a_.L, begin + kTaskQueries);
    use_keys(h / a_.group);
    use_queries(h);
    clear_queries();
    for (int64_t j = 0; j < a_.S; j += kGradKeys) {
      for (int64_t i = begin; i < end; i += kGradQueries) {
        add_tile(h, i, j, false, true);
      }
    }
    write_queries(h, begin, end);
  }

 private:
  void add_keys_between(int64_t m, int64_t begin, int64_t end, bool with_queries) {
    use_keys(m);
    const int64_t wide = round_up(end, kBlock);
    std::fill(dk_ + begin * a_.wide_D, dk_ + wide * a_.wide_D, 0.0f);
    std::fill(dv_ + begin * a_.wide_E, dv_ + wide * a_.wide_E, 0.0f);
    for (int64_t h = m * a_.group; h < (m + 1) * a_.group; ++h) {
      use_queries(h);
      if (with_queries) clear_queries();
      for (int64_t j = begin; j < end; j += kGradKeys) {
        for (int64_t i = 0; i < a_.L; i += kGradQueries) add_tile(h, i, j, true, with_queries);
      }
      if (with_queries) write_queries(h, 0, a_.L);
    }
  }

  void use_keys(int64_t m) {
    if (m == keys_head_) return;
    a_.copy_rows(keys_, a_.keys(m));
    a_.copy_transposed(turned_keys_, a_.key_row, a_.keys(m));
    a_.copy_rows(values_, a_.values(m));
    keys_head_ = m;
  }

  void use_queries(int64_t h) {
    if (h == queries_head_) return;
    const HeadRows q = a_.queries(h), dy{b_.dy + h * a_.L * a_.E, a_.L, a_.E};
    a_.for_rows(q, [&](int64_t first, const Bits* const* rows) {
      a_.kernels.products.columns(q_columns_ + first * a_.wide_D, rows, a_.D);
      a_.kernels.products.interleave(q_terms_ + first * kBlock, a_.wide_L * kBlock, rows, a_.D);
    });
    a_.for_rows(dy, [&](int64_t first, const Bits* const* rows) {
      a_.kernels.products.columns(dy_columns_ + first * a_.wide_E, rows, a_.E);
      a_.kernels.products.interleave(dy_terms_ + first * kBlock, a_.wide_L * kBlock, rows, a_.E);
    });
    const Bits* y = b_.y + h * a_.L * a_.E;
    const Bits* dy_row = dy.data;
    for (int64_t i = 0; i < a_.wide_L; ++i, y += a_.E, dy_row += a_.E) {
      logs_[i] = kInf<float>;  // rows behind the last have no weights
      delta_[i] = 0;
      if (i >= a_.L) continue;
      logs_[i] = b_.logsumexp[h * a_.L + i] * kLog2E;
      for (int64_t e = 0; e < a_.E; ++e) delta_[i] += bf16_value(y[e]) * bf16_value(dy_row[e]);
    }
    queries_head_ = h;
  }

  void clear_queries() { std::fill_n(dq_, a_.wide_L * a_.wide_D, 0.0f); }

  /// Adds what kGradQueries queries of head h from i and kGradKeys keys from j contribute.
  void add_tile(int64_t h, int64_t i, int64_t j, bool of_keys, bool of_queries) {
    const int64_t queries = std::min(kGradQueries, a_.wide_L - i);
    const int64_t keys = std::min(kGradKeys, a_.wide_S - j);
    if (a_.keys_of(i + queries) <= j) return;
    for (int64_t r = 0; r < queries; r += kBlock) {
      for (int64_t c = 0; c < keys; c += kBlock) make_gradients(h, i, r, j, c);
    }
    if (of_keys) {
      for (int64_t c = 0; c < keys; c += kBlock) {
        const int64_t at = c * kGradQueries;
        for (int64_t e = 0; e < a_.wide_E; e += kBlock) {
          a_.multiply(dv_ + (j + c) * a_.wide_E + e * kBlock, weights_ + at, kGradQueries,
                      dy_terms_ + (e * a_.wide_L) + i * kBlock, queries, true);
        }
        for (int64_t d = 0; d < a_.wide_D; d += kBlock) {
          a_.multiply(dk_ + (j + c) * a_.wide_D + d * kBlock, d_scores_ + at, kGradQueries,
                      q_terms_ + (d * a_.wide_L) + i * kBlock, queries, true);
        }
      }
    }
    if (!of_queries) return;
    for (int64_t r = 0; r < queries; r += kBlock) {
      for (int64_t d = 0; d < a_.wide_D; d += kBlock) {
        a_.multiply(dq_ + (i + r) * a_.wide_D + d * kBlock, turned_keys_ + d * a_.key_row + j,
                    a_.key_row, d_pairs_ + r * kGradKeys, keys, true);
      }
    }
  }

  /// Weights and gradients of the scores of 32 keys, c of those from j, and 32 queries.
  void make_gradients(int64_t h, int64_t i, int64_t r, int64_t j, int64_t c) {
    float scores[kBlockSums], d_weights[kBlockSums];
    const int64_t query = i + r, key = j + c;
    const int64_t n = std::clamp(a_.keys_of(query + kBlock) - key, int64_t{0}, kBlock);
    if (n > 0) {
      a_.multiply(scores, keys_ + key * a_.wide_D, a_.wide_D, q_columns_ + query * a_.wide_D,
                  a_.wide_D, false);
      a_.multiply(d_weights, values_ + key * a_.wide_E, a_.wide_E, dy_columns_ + query * a_.wide_E,
                  a_.wide_E, false);
      a_.finish(scores, h, query, key, n);
    }
    a_.kernels.tiles.differentiate({.scores = scores,
                                    .d_weights = d_weights,
                                    .keys = n,
                                    .factor = a_.factor(),
                                    .logs = logs_ + query,
                                    .delta = delta_ + query,
                                    .weights = weights_ + c * kGradQueries + r,
                                    .d_scores = d_scores_ + c * kGradQueries + r,
                                    .step = kGradQueries,
                                    .d_pairs = d_pairs_ + r * kGradKeys + c * kBlock});
  }

  /// Blocks of sums [rows / 32, width / 32, 32, 32] as rows.
  static void write_rows(Bits* to, const float* sums, int64_t begin, int64_t end, int64_t width,
                         float factor) {
    const int64_t wide = round_up(width, kBlock);
    for (int64_t i = begin; i < end; ++i) {
      const float* const block = sums + i / kBlock * kBlock * wide + i % kBlock * kBlock;
      for (int64_t d = 0; d < width; ++d)
        to[i * width + d] = bf16_rounded(factor * block[d / kBlock * kBlockSums + d % kBlock]);
    }
  }

  void write_keys(int64_t m, int64_t begin, int64_t end) const {
    write_rows(b_.dk + m * a_.S * a_.D, dk_, begin, end, a_.D, static_cast<float>(a_.how.scale));
    write_rows(b_.dv + m * a_.S * a_.E, dv_, begin, end, a_.E, 1);
  }

  void write_queries(int64_t h, int64_t begin, int64_t end) const {
    float factors[kBlock];
    std::fill_n(factors, kBlock, static_cast<float>(a_.how.scale));
    for (int64_t i = begin; i < end; i += kBlock) {
      a_.kernels.tiles.write_columns(b_.dq + (h * a_.L + i) * a_.D, dq_ + i * a_.wide_D, factors,
                                     std::min(kBlock, end - i), a_.D);
    }
  }

  const Bf16Attention& a_;
  const Bf16Arrays& b_;
  std::vector<Tensor> memory_;
  // Of a head of keys.
  Bits* const keys_ = attention_memory<Bits>(memory_, a_.wide_S* a_.wide_D);
  Bits* const turned_keys_ = attention_memory<Bits>(memory_, a_.key_row* a_.wide_D);  // [D, keys]
  Bits* const values_ = attention_memory<Bits>(memory_, a_.wide_S* a_.wide_E);
  float* const dk_ = attention_memory<float>(memory_, a_.wide_S* a_.wide_D);
  float* const dv_ = attention_memory<float>(memory_, a_.wide_S* a_.wide_E);
  // Of a head of queries: as columns of a product, and as terms.
  Bits* const q_columns_ = attention_memory<Bits>(memory_, a_.wide_L* a_.wide_D);
  Bits* const q_terms_ = attention_memory<Bits>(memory_, a_.wide_L* a_.wide_D);
  Bits* const dy_columns_ = attention_memory<Bits>(memory_, a_.wide_L* a_.wide_E);
  Bits* const dy_terms_ = attention_memory<Bits>(memory_, a_.wide_L* a_.wide_E);
  float* const logs_ = attention_memory<float>(memory_, a_.wide_L);
  float* const delta_ = attention_memory<float>(memory_, a_.wide_L);
  float* const dq_ = attention_memory<float>(memory_, a_.wide_L* a_.wide_D);  // blocks of dQ^T
  // Of a tile.
  Bits* const weights_ = attention_memory<Bits>(memory_, kGradKeys* kGradQueries);
  Bits* const d_scores_ = attention_memory<Bits>(memory_, kGradKeys* kGradQueries);
  Bits* const d_pairs_ = attention_memory<Bits>(memory_, kGradKeys* kGradQueries);
  int64_t keys_head_ = -1, queries_head_ = -1;
};

}  // namespace

const Bf16AttentionKernels& bf16_kernels() {
  static const Bf16AttentionKernels best = [] {
#if defined(__x86_64__)
    if (has_tile_registers()) return Bf16AttentionKernels{amx_kernels(), attention_tiles_amx()};
#endif
    return Bf16AttentionKernels{amx_kernels_base(), attention_tiles_base()};
  }();
  return best;
}

void attention_forward_bf16(const Bf16AttentionKernels& kernels, const Tensor& y,
                            const Tensor& logsumexp, const Tensor& q, const Tensor& k,
                            const Tensor& v, const TiledAttention& how) {
  const Bf16Attention a(kernels, q, k, v, how);
  const int64_t tiles = ceil_div(a.L, kTaskQueries);
  const int64_t work = std::min(a.L, kTaskQueries) * a.S * (a.D + a.E);
  auto* const out = reinterpret_cast<Bits*>(y.data<BFloat16>());
  share_out(
      a.heads * tiles, std::max<int64_t>(1, (1 << 21) / work),
      [&] { return Bf16Forward(a, out, logsumexp.data<float>()); },
      [&](Bf16Forward& worker, int64_t task) {
        worker.compute(task / tiles, task % tiles * kTaskQueries);
      });
}

void attention_backward_bf16(const Bf16AttentionKernels& kernels, const AttentionGradients& grads,
                             const Tensor& dy, const Tensor& y, const Tensor& logsumexp,
                             const Tensor& q, const Tensor& k, const Tensor& v,
                             const TiledAttention& how) {
  const Bf16Attention a(kernels, q, k, v, how);
  const auto out = [](const Tensor& t) { return reinterpret_cast<Bits*>(t.data<BFloat16>()); };
  const Bf16Arrays b{bits_of(dy),   bits_of(y),    logsumexp.data<float>(),
                     out(grads.dq), out(grads.dk), out(grads.dv)};
  share_out_gradients({.heads = a.heads,
                       .shared = a.heads / a.group,
                       .query_tiles = ceil_div(a.L, kTaskQueries),
                       .key_tiles = ceil_div(a.S, kTaskKeys),
                       .work = a.group * a.L * a.S * (3 * a.D + 2 * a.E)},
                      [&] { return Bf16Backward(a, b); });
}

}  // namespace lathe::cpu
