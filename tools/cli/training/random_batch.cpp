// RandomBatch, and a step on it.
#include "lathe/tools/cli/training/random_batch.h"

#include "lathe/ops/random.h"

namespace lathe::cli {

RandomBatch random_batch(const Settings& settings, const ModelShape& shape, Device device,
                         int64_t images) {
  const int64_t side = settings.image_size.value_or(32);
  const Tensor x = randn({images, shape.in_channels, side, side}, {.device = device});
  return {in_layout(x, settings), randint(0, shape.classes, {images}, {.device = device})};
}

void train_on(const RandomBatch& batch, nn::Module& model, optim::Optimizer& optimizer,
              const Settings& settings) {
  train::Step step(model, optimizer, loss_of(model, settings),
                   {.amp = settings.amp,
                    .scaling = optim::GradScalerOptions{.enabled = false},
                    .recompute = settings.recompute,
                    .capture = false});
  step({batch.x, batch.y});
}

}  // namespace lathe::cli
