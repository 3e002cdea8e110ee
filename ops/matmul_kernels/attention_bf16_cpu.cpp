// Attention of bf16 in tile registers: the forward pass. Contract: attention_bf16.h.
//
// All products have 32 queries as columns, and scores lie as keys by queries. So softmax works on
// whole vectors, and weights leave it as the operand of the next product:
//   scores^T = K Q^T     y^T = V^T P^T
#include <cmath>
#include <optional>

#include "lathe/ops/matmul_kernels/attention_bf16_call.h"
#include "lathe/ops/matmul_kernels/attention_tasks.h"

namespace lathe::cpu {

namespace {

using attention_rows::kInf;
using Bits = Bf16Attention::Bits;

/// Keys as rows, values as rows along the keys.
class ForwardKeys {
 public:
  ForwardKeys(const Bf16Attention& a, int64_t heads)
      : keys_size_(a.wide_S * a.wide_D),
        values_size_(a.key_row * a.wide_E),
        keys_(attention_memory<Bits>(memory_, heads * keys_size_)),
        values_(attention_memory<Bits>(memory_, heads * values_size_)) {}

  static int64_t rows(const Bf16Attention& a) { return a.wide_S; }
  void copy(const Bf16Attention& a, int64_t place, int64_t head, int64_t first) {
    a.copy_rows(keys_ + place * keys_size_ + first * a.wide_D, a.block(a.keys(head), first), a.D);
    a.kernels.products.transpose(values_ + place * values_size_ + first, a.key_row,
                                 a.block(a.values(head), first).rows, a.E, a.wide_E);
  }
  const Bits* keys(int64_t place) const { return keys_ + place * keys_size_; }
  const Bits* values(int64_t place) const { return values_ + place * values_size_; }

 private:
  std::vector<Tensor> memory_;
  int64_t keys_size_, values_size_;
  Bits *keys_, *values_;
};

/// A thread's part of the forward pass.
class Bf16Forward {
 public:
  Bf16Forward(const Bf16Attention& a, const CopiedHeads<ForwardKeys>* all, Bits* y,
              float* logsumexp)
      : a_(a), heads_(a, all), y_(y), logsumexp_(logsumexp) {}

  /// Up to kQueries queries of head h from `first`.
  void compute(int64_t h, int64_t first) {
    const AmxScope products(a_.kernels.products, kAttentionBlock);
    const int64_t blocks =
        ceil_div(std::min(Bf16Attention::kQueries, a_.L - first), kAttentionBlock);
    place_ = heads_.place_of(a_, a_.shared_of(h));
    for (int64_t b = 0; b < blocks; ++b) {
      a_.kernels.products.columns(queries_ + b * query_size(),
                                  a_.block(a_.queries(h), first + b * kAttentionBlock).rows, a_.D);
    }
    std::fill_n(largest_, blocks * kAttentionBlock, -kInf<float>);
    std::fill_n(sum_, blocks * kAttentionBlock, 0.0f);
    const int64_t keys = a_.keys_of(first + blocks * kAttentionBlock);
    for (int64_t j = 0; j < keys; j += Bf16Attention::kKeys) {
      for (int64_t b = 0; b < blocks; ++b) add_keys(h, first, b, j);
    }
    for (int64_t b = 0; b < blocks; ++b) write(h, first, b);
  }

 private:
  int64_t out_size() const { return a_.wide_E * kAttentionBlock; }
  int64_t query_size() const { return a_.wide_D * kAttentionBlock; }

  /// Goes over kKeys keys from j for 32 queries, block b of those from `first`.
  void add_keys(int64_t h, int64_t first, int64_t b, int64_t j) {
    const int64_t i = first + b * kAttentionBlock;
    const int64_t keys = std::min(Bf16Attention::kKeys, a_.keys_of(i + kAttentionBlock) - j);
    if (keys <= 0) return;
    const Bits* const rows = heads_.copies().keys(place_) + j * a_.wide_D;
    const Bits* const values = heads_.copies().values(place_) + j;
    for (int64_t at = 0; at < keys; at += kAttentionBlock) {
      a_.multiply(scores_ + at * kAttentionBlock, rows + at * a_.wide_D, a_.wide_D,
                  queries_ + b * query_size(), a_.wide_D, false);
    }
    a_.finish(scores_, h, i, j, keys);
    float shrink[kAttentionBlock];
    const bool shrinks = a_.kernels.tiles.soften({.scores = scores_,
                                                  .keys = keys,
                                                  .scale = a_.scale,
                                                  .largest = largest_ + b * kAttentionBlock,
                                                  .sum = sum_ + b * kAttentionBlock,
                                                  .shrink = shrink,
                                                  .weights = weights_});
    float* const out = out_ + b * out_size();
    if (j > 0 && shrinks) a_.kernels.tiles.scale_columns(out, a_.wide_E, shrink);
    for (int64_t e = 0; e < a_.wide_E; e += kAttentionBlock) {
      a_.multiply(out + e * kAttentionBlock, values + e * a_.key_row, a_.key_row, weights_, keys,
                  j > 0);
    }
  }

  void write(int64_t h, int64_t first, int64_t b) const {
    const int64_t i = h * a_.L + first + b * kAttentionBlock;
    const int64_t rows = std::min(kAttentionBlock, a_.L - first - b * kAttentionBlock);
    float factors[kAttentionBlock];
    for (int64_t r = 0; r < kAttentionBlock; ++r) {
      const float sum = sum_[b * kAttentionBlock + r], largest = largest_[b * kAttentionBlock + r];
      const bool blind = sum == 0 && largest == -kInf<float>;
      factors[r] = blind ? 0 : 1 / sum;
      // A row that sees nothing has weights of exp(-inf - inf) = 0 in the backward pass, too.
      if (r < rows) logsumexp_[i + r] = blind ? kInf<float> : largest * a_.scale + std::log(sum);
    }
    a_.kernels.tiles.write_columns(y_ + i * a_.E, out_ + b * out_size(), factors, rows, a_.E);
  }

  const Bf16Attention& a_;
  CopiedHeads<ForwardKeys> heads_;
  Bits* const y_;
  float* const logsumexp_;
  std::vector<Tensor> memory_;
  Bits* const queries_ = attention_memory<Bits>(memory_, Bf16Attention::kQueries* a_.wide_D);
  Bits* const weights_ = attention_memory<Bits>(memory_, Bf16Attention::kKeys* kAttentionBlock);
  float* const scores_ = attention_memory<float>(memory_, Bf16Attention::kKeys* kAttentionBlock);
  float* const out_ = attention_memory<float>(memory_, Bf16Attention::kQueries* a_.wide_E);  // y^T
  int64_t place_ = 0;  // of the head's copies
  float largest_[Bf16Attention::kQueries], sum_[Bf16Attention::kQueries];
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
  const int64_t tiles = ceil_div(a.L, Bf16Attention::kQueries);
  const int64_t work = std::min(a.L, Bf16Attention::kQueries) * a.S * (a.D + a.E);
  std::optional<CopiedHeads<ForwardKeys>> all;
  if (a.shared < num_threads()) all.emplace(a, a.shared);
  share_out(
      a.heads * tiles, std::max<int64_t>(1, (1 << 21) / work),
      [&] {
        return Bf16Forward(a, all ? &*all : nullptr, Bf16Attention::bits(y),
                           logsumexp.data<float>());
      },
      [&](Bf16Forward& worker, int64_t task) {
        worker.compute(task / tiles, task % tiles * Bf16Attention::kQueries);
      });
}

}  // namespace lathe::cpu
