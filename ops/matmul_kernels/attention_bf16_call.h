// One call of attention in tile registers: its sizes, its scores, and copies of its heads as the
// products read them. For attention_bf16_cpu.cpp and attention_bf16_grad_cpu.cpp.
#pragma once

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "lathe/core/ceil_div.h"
#include "lathe/core/half.h"
#include "lathe/core/hooks/memory_tag.h"
#include "lathe/core/thread_pool.h"
#include "lathe/ops/matmul_kernels/attention_bf16.h"
#include "lathe/ops/matmul_kernels/attention_rows.h"

namespace lathe::cpu {

inline constexpr int64_t kAttentionBlock = kAmxBlock;

struct Bf16Attention {
  using Bits = uint16_t;  // of a bf16
  static constexpr int64_t kBlock = kAttentionBlock;
  // The queries and keys of a task. Copies of 256 keys stay in the second-level cache.
  static constexpr int64_t kQueries = 128, kKeys = 256;
  static_assert(kTileQueries == kBlock);

  /// Dense rows of a head.
  struct Rows {
    const Bits* data;
    int64_t count, width;
  };

  Bf16Attention(const Bf16AttentionKernels& kernels_in, const Tensor& q_in, const Tensor& k_in,
                const Tensor& v_in, const TiledAttention& how_in)
      : kernels(kernels_in),
        how(how_in),
        q(bits(q_in)),
        k(bits(k_in)),
        v(bits(v_in)),
        heads(q_in.dim(0)),
        shared(k_in.dim(0)),
        L(q_in.dim(1)),
        S(k_in.dim(1)),
        D(q_in.dim(2)),
        E(v_in.dim(2)),
        zeros(static_cast<size_t>(std::max(D, E))) {}

  const Bf16AttentionKernels& kernels;
  const TiledAttention& how;
  const Bits *q, *k, *v;
  const Bits *dy = nullptr, *y = nullptr;  // of the backward pass
  const float* logsumexp = nullptr;
  int64_t heads, shared, L, S, D, E;
  const std::vector<Bits> zeros;
  // Copies have rows and widths of whole blocks, with zeros behind the last.
  const int64_t wide_L = round_up(L, kBlock), wide_S = round_up(S, kBlock);
  const int64_t wide_D = round_up(D, kBlock), wide_E = round_up(E, kBlock);
  // Of rows along the keys. An odd number of cache lines: rows 4 KiB apart would share their places
  // in the first-level cache.
  const int64_t key_row = wide_S | kBlock;
  // What the exponent is multiplied by after finish().
  const float scale = attention_rows::rest_of_scale<float>(how);

  static Bits* bits(const Tensor& t) { return reinterpret_cast<Bits*>(t.data<BFloat16>()); }

  int64_t shared_of(int64_t head) const { return head / (heads / shared); }
  Rows queries(int64_t head) const { return {q + head * L * D, L, D}; }
  Rows keys(int64_t m) const { return {k + m * S * D, S, D}; }
  Rows values(int64_t m) const { return {v + m * S * E, S, E}; }

  /// Keys that the queries before `end` may see.
  int64_t keys_of(int64_t end) const { return how.causal ? std::min(S, end) : S; }

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
    if (attention_rows::scales_first(how)) {
      MaskTile tile{.scores = scores,
                    .keys = n,
                    .queries = std::min(kBlock, L - i),
                    .scale = static_cast<float>(how.scale),
                    .least = static_cast<float>(how.least)};
      if (const Tensor& mask = how.mask; mask.defined()) {
        tile.of_query = mask.stride(-2);
        tile.of_key = mask.stride(-1);
        const int64_t at =
            attention_rows::matrix_start(mask, h) + i * tile.of_query + j * tile.of_key;
        if (mask.dtype() == kBool) {
          tile.looks = mask.data<bool>() + at;
        } else {
          tile.added = mask.data<float>() + at;
        }
      }
      kernels.tiles.mask(tile);
    }
    if (!how.causal) return;
    for (int64_t key = std::max(j, i + 1); key < j + n; ++key) {
      std::fill_n(scores + (key - j) * kBlock, std::min(kBlock, key - i),
                  -attention_rows::kInf<float>);
    }
  }

  /// 32 rows from `first`; pointers to zeros behind the last.
  struct Block {
    const Bits* rows[kBlock];
  };
  Block block(const Rows& x, int64_t first) const {
    Block b;
    for (int64_t i = 0; i < kBlock; ++i)
      b.rows[i] = first + i < x.count ? x.data + (first + i) * x.width : zeros.data();
    return b;
  }
  /// The block as rows of zeros-padded width.
  static void copy_rows(Bits* to, const Block& b, int64_t width) {
    const int64_t wide = round_up(width, kBlock);
    for (int64_t i = 0; i < kBlock; ++i, to += wide)
      std::fill(std::copy_n(b.rows[i], width, to), to + wide, Bits{0});
  }
};

template <class T>
T* attention_memory(std::vector<Tensor>& memory, int64_t elements) {
  const profile::MemoryTagScope workspace(profile::MemoryTag::kWorkspace);
  memory.push_back(empty({elements * static_cast<int64_t>(sizeof(T))}, {.dtype = kU8}));
  return reinterpret_cast<T*>(memory.back().data<uint8_t>());
}

/// Copies of heads, found by head. `Copies` has
///   Copies(a, heads)                  memory for so many
///   static int64_t rows(a)            of a head, whole blocks of 32
///   copy(a, place, head, first)       copies the block of rows from `first`
/// Either all heads are copied before the work, by all threads; or each worker copies one at a
/// time, which then is in its cache.
template <class Copies>
class CopiedHeads {
 public:
  /// Of all heads.
  CopiedHeads(const Bf16Attention& a, int64_t heads) : own_(std::in_place, a, heads) {
    const int64_t blocks = Copies::rows(a) / Bf16Attention::kBlock;
    parallel_for(heads * blocks, 16, [&](int64_t begin, int64_t end) {
      for (int64_t at = begin; at < end; ++at) {
        const int64_t head = at / blocks;
        own_->copy(a, head, head, at % blocks * Bf16Attention::kBlock);
      }
    });
  }
  /// Those of `all`, or if it is null, one head at a time.
  CopiedHeads(const Bf16Attention& a, const CopiedHeads* all) : all_(all) {
    if (all == nullptr) own_.emplace(a, 1);
  }

  const Copies& copies() const { return all_ != nullptr ? *all_->own_ : *own_; }
  /// Where the copies of `head` are.
  int64_t place_of(const Bf16Attention& a, int64_t head) {
    if (all_ != nullptr) return head;
    for (int64_t first = 0; head != head_ && first < Copies::rows(a);
         first += Bf16Attention::kBlock) {
      own_->copy(a, 0, head, first);
    }
    head_ = head;
    return 0;
  }

 private:
  std::optional<Copies> own_;
  const CopiedHeads* all_ = nullptr;
  int64_t head_ = -1;
};

}  // namespace lathe::cpu
