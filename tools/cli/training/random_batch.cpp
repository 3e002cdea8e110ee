// random_batch(), and steps on it.
#include "lathe/tools/cli/training/random_batch.h"

#include "lathe/ops/random.h"
#include "lathe/tools/cli/training/optimizers.h"

namespace lathe::cli {

data::Batch random_batch(const Settings& settings, const ModelShape& shape, Device device,
                         int64_t images) {
  const int64_t side = settings.image_size.value_or(32);
  const Tensor x = randn({images, shape.in_channels, side, side}, {.device = device});
  return {.x = in_layout(x, settings),
          .y = randint(0, shape.classes, {images}, {.device = device})};
}

train::StepSetup random_step_setup(const Settings& settings) {
  const ModelShape shape{.classes = settings.classes, .in_channels = settings.in_channels};
  return {.model = [&settings, shape] { return make_model(settings, shape); },
          .optimizer = [&settings](nn::Module& model) { return make_optimizer(settings, model); },
          .loss = [&settings](nn::Module& model) { return loss_of(model, settings); },
          .batch =
              [&settings, shape](int64_t images, Device device) {
                const data::Batch made = random_batch(settings, shape, device, images);
                return Tensors{made.x, made.y};
              },
          .options = step_options(settings),
          .channels_last = settings.layout == "nhwc"};
}

profile::MemoryForecast forecast_steps(const Settings& settings, const ModelShape& shape,
                                       Device device, nn::Module& model,
                                       optim::Optimizer& optimizer, int64_t images) {
  train::Step step(model, optimizer, loss_of(model, settings),
                   {.amp = settings.amp,
                    .scaling = optim::GradScalerOptions{.enabled = false},
                    .recompute = settings.recompute,
                    .capture = false});
  const auto gradients = [&](int64_t of) {
    const data::Batch batch = random_batch(settings, shape, device, of);
    step.forward({batch.x, batch.y}, {.last = true});
    step.backward();
  };
  return profile::forecast_memory(device, gradients, [&] { step.update(); },
                                  {.small_batch = images, .large_batch = 2 * images});
}

}  // namespace lathe::cli
