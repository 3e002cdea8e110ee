// A table of trainable vectors; see ops/embedding.h.
#pragma once

#include "lathe/nn/module.h"
#include "lathe/ops/embedding.h"

namespace lathe::nn {

/// Looks up rows of weight [entries,width], initially N(0,1). The index may have any shape, with
/// integers in [0, entries). The result has the index's shape + [width]. The row
/// options.padding_index, if given, starts as 0 and gets no gradient.
/// throws: ValueError unless entries and width are positive and padding_index, if given, is in
/// [-entries, entries).
class LATHE_API Embedding final : public Module {
 public:
  Embedding(int64_t entries, int64_t width, const EmbeddingOptions& options = {});
  Embedding(Module& parent, const std::string& name, int64_t entries, int64_t width,
            const EmbeddingOptions& options = {})
      : Embedding(entries, width, options) {
    join(parent, name);
  }

  Tensor forward(const Tensor& index) override;
  std::optional<LoraLayer> lora_layer() const override;

  Parameter weight;

 private:
  EmbeddingOptions options_;
};

}  // namespace lathe::nn
