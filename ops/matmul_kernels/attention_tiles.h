// What attention in tile registers does to scores between its products (attention_bf16_cpu.cpp):
// attention_tiles_amx.cpp in AVX-512, attention_tiles_cpu.cpp in plain loops for tests.
//
// Scores lie as keys by queries, 32 queries in a row, so what is computed for each query, such as
// its largest score, is computed for 16 queries in one vector.
#pragma once

#include <cstdint>

namespace lathe::cpu {

inline constexpr int64_t kTileQueries = 32;

/// Scales products and hides those that a mask hides, or adds what the mask adds.
struct MaskTile {
  float* scores;  // [keys,32]
  int64_t keys, queries;
  float scale;
  // At most one is not null; the number of (query, key) is at query * of_query + key * of_key.
  const bool* looks = nullptr;
  const float* added = nullptr;
  int64_t of_query = 0, of_key = 0;
  float least = 0;  // a sum up to this becomes -inf
};

/// One step of online softmax: more keys for 32 queries. Weights are relative to the largest score
/// so far: exp(scale * (score - largest)).
struct SoftmaxTile {
  const float* scores;  // [keys,32]; -inf where hidden
  int64_t keys;
  float scale;        // > 0
  float* largest;     // [32], of earlier keys; becomes that of these keys, too
  float* sum;         // [32], of the weights of earlier keys; those of these keys are added
  float* shrink;      // [32], becomes what earlier sums were multiplied by
  uint16_t* weights;  // in bf16, the weight of (key, query) at key / 2 * 64 + query * 2 + key % 2;
                      // 0 for keys behind, up to a multiple of 32
};

/// A tile of the backward pass.
///   weights   w = exp(scale * score - logs), in bf16
///   d_scores  w * (d_weights - delta), in bf16
struct GradientTile {
  const float *scores, *d_weights;  // [32,32], keys by queries
  int64_t keys;                     // the results are 0 for the others
  float scale;
  const float *logs, *delta;     // [32]: the logsumexp of the scores; y · dy
  uint16_t *weights, *d_scores;  // (key, query) at key * step + query
  int64_t step;
  uint16_t* d_pairs;  // d_scores again: (key, query) at key / 2 * 64 + query * 2 + key % 2
};

struct AttentionTiles {
  void (*mask)(const MaskTile& tile);
  /// True if any of `shrink` is not 1.
  bool (*soften)(const SoftmaxTile& tile);
  void (*differentiate)(const GradientTile& tile);
  /// sums[rows,32] *= factors[32]
  void (*scale_columns)(float* sums, int64_t rows, const float* factors);
  /// to[q * n + i] = sums[i * 32 + q] * factors[q], rounded to bf16, for q < queries and i < n; 0
  /// where the factor is 0.
  void (*write_columns)(uint16_t* to, const float* sums, const float* factors, int64_t queries,
                        int64_t n);
};

AttentionTiles attention_tiles_base();
/// For x86-64 alone, where has_tile_registers() (amx_kernels.h).
AttentionTiles attention_tiles_amx();

}  // namespace lathe::cpu
