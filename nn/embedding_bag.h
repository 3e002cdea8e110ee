// Bags of rows of a table of trainable vectors; see ops/embedding_bag.h.
#pragma once

#include "lathe/nn/module_of.h"
#include "lathe/ops/embedding_bag.h"

namespace lathe::nn {

struct EmbeddingBagOptions {
  EmbeddingBagMode mode = EmbeddingBagMode::kMean;
  bool include_last_offset = false;           // as in ops/embedding_bag.h
  std::optional<int64_t> padding_index = {};  // this row starts as 0 and is in no bag
};

/// Sums, means or maxima of rows of weight [entries,width], initially N(0,1).
///   nn::EmbeddingBag bag{*this, "bag", 1000, 16};
///   y = bag(index);            // index [B,K] → [B,16]
///   y = bag(index, offsets);   // index [K], offsets [B] → [B,16]
/// Undefined offsets or per_sample_weights are none.
/// throws: ValueError unless entries and width are positive and padding_index, if given, is in
/// [-entries, entries); forward() what embedding_bag() throws.
class LATHE_API EmbeddingBag final
    : public ModuleOf<Tensor(const Tensor& index, const Tensor& offsets,
                             const Tensor& per_sample_weights)> {
 public:
  EmbeddingBag(int64_t entries, int64_t width, const EmbeddingBagOptions& options = {});
  EmbeddingBag(Module& parent, const std::string& name, int64_t entries, int64_t width,
               const EmbeddingBagOptions& options = {})
      : EmbeddingBag(entries, width, options) {
    join(parent, name);
  }

  using ModuleOf::operator(), ModuleOf::forward;
  Tensor forward(const Tensor& index, const Tensor& offsets,
                 const Tensor& per_sample_weights) override;
  Tensor operator()(const Tensor& index) { return (*this)(index, {}, {}); }
  Tensor operator()(const Tensor& index, const Tensor& offsets) {
    return (*this)(index, offsets, {});
  }

  Parameter weight;

 private:
  EmbeddingBagOptions options_;
};

}  // namespace lathe::nn
