// Embedding: the table's initial values and its padding row; the lookup is ops/embedding.
#include "lathe/nn/embedding.h"

#include "lathe/nn/init.h"
#include "lathe/nn/lora_layer.h"

namespace lathe::nn {

Embedding::Embedding(int64_t entries, int64_t width, const EmbeddingOptions& options)
    : options_(options) {
  LATHE_CHECK(ValueError, entries > 0 && width > 0,
              "Embedding: entries and width must be positive, got ", entries, " and ", width);
  const Tensor table = empty({entries, width});
  init::normal_(table, 0, 1);
  if (options.padding_index.has_value()) {
    const int64_t row = *options.padding_index;
    LATHE_CHECK(ValueError, row >= -entries && row < entries,
                "Embedding: padding_index must be in [", -entries, ",", entries, "), got ", row);
    init::zeros_(table[row]);
  }
  weight = parameter("weight", table);
}

Tensor Embedding::forward(const Tensor& index) { return embedding(weight, index, options_); }

std::optional<LoraLayer> Embedding::lora_layer() const {
  return LoraLayer{.kind = LoraLayer::Kind::kEmbedding,
                   .weight = weight,
                   .padding_index = options_.padding_index};
}

}  // namespace lathe::nn
