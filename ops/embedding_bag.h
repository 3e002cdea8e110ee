// Sums, means or maxima of rows of a table. embedding_bag.cpp: checks, and the form for a GPU, made
// of other ops; bag_sums.h: the form for the CPU.
#pragma once

#include <optional>

#include "lathe/core/tensor.h"

namespace lathe {

enum class EmbeddingBagMode : uint8_t { kSum, kMean, kMax };

struct EmbeddingBagOptions {
  Tensor offsets = {};  // [B], i64 or i32: where each bag begins in an index [K]
  EmbeddingBagMode mode = EmbeddingBagMode::kMean;
  Tensor per_sample_weights = {};    // factors of the rows, for kSum
  bool include_last_offset = false;  // offsets is [B + 1], and its last one ends the last bag
  std::optional<int64_t> padding_index = {};  // left out of its bag; negative: from the end
};

/// Looks up rows of weight by index, and reduces those of each bag to one row. A bag without rows
/// gives 0. With kMax, the first of equal rows gets the gradient.
///   weight              [V,E]
///   index               [B,K]: each row is a bag; or [K] with offsets. i64 or i32, in [0, V)
///   offsets             in ascending order from 0 to at most K
///   per_sample_weights  of index's shape and weight's dtype
///   →                   [B,E]
/// dtypes: floats; half types are computed in f32 and rounded once.
/// grad: weight, per_sample_weights, twice differentiable.
/// amp: none, the result follows weight.
/// throws: IndexError for an index or a padding_index out of range; ValueError for offsets that do
/// not ascend from 0 to at most K, and for per_sample_weights without kSum; ShapeError, DTypeError,
/// DeviceError.
/// On a GPU the next call that waits for the device throws the IndexError for an index. Of offsets
/// on a GPU it only notices a first one above 0, with an IndexError.
/// ref: PyTorch, torch.nn.functional.embedding_bag.
LATHE_API Tensor embedding_bag(const Tensor& weight, const Tensor& index,
                               const EmbeddingBagOptions& options = {});

}  // namespace lathe
