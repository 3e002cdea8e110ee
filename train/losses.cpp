// Loss functions of common tasks.
#include "lathe/train/losses.h"

#include "lathe/core/error.h"

namespace lathe::train {

LossFunction classification(nn::Module& model, const CrossEntropyOptions& options) {
  return [&model, options](const Tensors& batch) {
    LATHE_CHECK(ValueError, batch.size() >= 2,
                "train::classification: a batch must have images and labels, got ", batch.size(),
                " tensors");
    const Tensor scores = model(batch[0]).to(kF32);
    return Result{cross_entropy(scores, batch[1], options), scores, batch[1]};
  };
}

}  // namespace lathe::train
