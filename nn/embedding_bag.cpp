// EmbeddingBag: the table's initial values and its padding row; the bags are ops/embedding_bag.
#include "lathe/nn/embedding_bag.h"

#include "lathe/nn/init.h"

namespace lathe::nn {

EmbeddingBag::EmbeddingBag(int64_t entries, int64_t width, const EmbeddingBagOptions& options)
    : options_(options) {
  LATHE_CHECK(ValueError, entries > 0 && width > 0,
              "EmbeddingBag: entries and width must be positive, got ", entries, " and ", width);
  const Tensor table = empty({entries, width});
  init::normal_(table, 0, 1);
  if (options.padding_index.has_value()) {
    const int64_t row = *options.padding_index;
    LATHE_CHECK(ValueError, row >= -entries && row < entries,
                "EmbeddingBag: padding_index must be in [", -entries, ",", entries, "), got ", row);
    init::zeros_(table[row]);
  }
  weight = parameter("weight", table);
}

Tensor EmbeddingBag::forward(const Tensor& index, const Tensor& offsets,
                             const Tensor& per_sample_weights) {
  return embedding_bag(weight, index,
                       {.offsets = offsets,
                        .mode = options_.mode,
                        .per_sample_weights = per_sample_weights,
                        .include_last_offset = options_.include_last_offset,
                        .padding_index = options_.padding_index});
}

}  // namespace lathe::nn
