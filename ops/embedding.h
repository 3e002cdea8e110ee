// Rows of a table by index, and class numbers as one-hot vectors (embedding.cpp).
#pragma once

#include <optional>

#include "lathe/core/tensor.h"

namespace lathe {

struct EmbeddingOptions {
  std::optional<int64_t> padding_index = {};  // this row gets no gradient; negative: from the end
};

/// y[…,:] = weight[index[…],:].
///   weight  [V,E]   index  i64 or i32, any shape, values in [0, V)   →  index's shape + [E]
/// grad: weight, twice differentiable; the gradients of a row that is looked up several times are
/// added up.
/// amp: none, the result follows weight.
/// throws: IndexError (naming value, position and range), ShapeError, DTypeError.
LATHE_API Tensor embedding(const Tensor& weight, const Tensor& index,
                           const EmbeddingOptions& options = {});

/// y[…,c] = 1 where c = index[…], else 0; i64.
///   index  i64 or i32, any shape, values in [0, classes)   →  index's shape + [classes]
///   classes  the number of classes; -1: one more than the largest index (waits for the device)
/// grad: none.
/// throws: IndexError, DTypeError, ValueError (classes < 1, or -1 with an empty index).
LATHE_API Tensor one_hot(const Tensor& index, int64_t classes = -1);

}  // namespace lathe
