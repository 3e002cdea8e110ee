// Loss functions of common tasks.
#include "lathe/train/losses.h"

#include "lathe/core/error.h"
#include "lathe/ops/argmax.h"

namespace lathe::train {

LossFunction classification(nn::Module& model, const CrossEntropyOptions& options) {
  return [&model, options](const Tensors& batch) {
    LATHE_CHECK(ValueError, batch.size() >= 2,
                "train::classification: a batch must have images and labels, got ", batch.size(),
                " tensors");
    const Tensor scores = model(batch[0]).to(kF32);
    const Tensor& labels = batch[1];
    const bool is_soft = is_floating(labels.dtype());
    return Result{cross_entropy(scores, labels, options), scores,
                  is_soft ? argmax(labels.detach(), 1) : labels};
  };
}

}  // namespace lathe::train
