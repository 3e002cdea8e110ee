// The loops between attention's products in plain code. Contract: attention_tiles.h.
#include "lathe/ops/matmul_kernels/attention_tiles.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lathe/core/ceil_div.h"
#include "lathe/core/half.h"

namespace lathe::cpu {

namespace {

constexpr float kNoScore = -std::numeric_limits<float>::infinity();

uint16_t bf16_bits(float x) { return half_detail::bfloat16_from_float(x); }

int64_t pair_place(int64_t key, int64_t query) { return key / 2 * 64 + query * 2 + key % 2; }

void mask(const MaskTile& t) {
  for (int64_t k = 0; k < t.keys; ++k) {
    for (int64_t q = 0; q < kTileQueries; ++q) {
      float& score = t.scores[k * kTileQueries + q];
      score *= t.scale;
      if (q >= t.queries) continue;
      const int64_t at = q * t.of_query + k * t.of_key;
      if (t.looks != nullptr && !t.looks[at]) score = kNoScore;
      if (t.added == nullptr) continue;
      score += t.added[at];
      if (score <= t.least) score = kNoScore;
    }
  }
}

bool soften(const SoftmaxTile& t) {
  bool shrinks = false;
  for (int64_t q = 0; q < kTileQueries; ++q) {
    float largest = t.largest[q];
    for (int64_t k = 0; k < t.keys; ++k)
      largest = std::max(largest, t.scores[k * kTileQueries + q]);
    const float from = largest == kNoScore ? 0 : largest;  // all hidden: weights of exp(-inf)
    t.shrink[q] = std::exp((t.largest[q] - from) * t.scale);
    t.largest[q] = largest;
    t.sum[q] *= t.shrink[q];
    shrinks |= t.shrink[q] != 1;
    for (int64_t k = 0; k < round_up(t.keys, kTileQueries); ++k) {
      const float score = k < t.keys ? t.scores[k * kTileQueries + q] : kNoScore;
      const float weight = std::exp((score - from) * t.scale);
      t.sum[q] += weight;
      t.weights[pair_place(k, q)] = bf16_bits(weight);
    }
  }
  return shrinks;
}

void differentiate(const GradientTile& t) {
  for (int64_t k = 0; k < kTileQueries; ++k) {
    for (int64_t q = 0; q < kTileQueries; ++q) {
      const int64_t at = k * kTileQueries + q;
      const bool counts = k < t.keys;
      const float weight = counts ? std::exp(t.scores[at] * t.scale - t.logs[q]) : 0;
      const float d = counts ? weight * (t.d_weights[at] - t.delta[q]) : 0;
      t.weights[k * t.step + q] = bf16_bits(weight);
      t.d_scores[k * t.step + q] = t.d_pairs[pair_place(k, q)] = bf16_bits(d);
    }
  }
}

void scale_columns(float* sums, int64_t rows, const float* factors) {
  for (int64_t i = 0; i < rows * kTileQueries; ++i) sums[i] *= factors[i % kTileQueries];
}

void write_columns(uint16_t* to, const float* sums, const float* factors, int64_t queries,
                   int64_t n) {
  for (int64_t q = 0; q < queries; ++q) {
    for (int64_t i = 0; i < n; ++i)
      to[q * n + i] = factors[q] == 0 ? 0 : bf16_bits(sums[i * kTileQueries + q] * factors[q]);
  }
}

}  // namespace

AttentionTiles attention_tiles_base() {
  return {mask, soften, differentiate, scale_columns, write_columns};
}

}  // namespace lathe::cpu
