// Steps on random numbers, for commands that measure a step and read no data.
#pragma once

#include <cstdint>

#include "lathe/core/device.h"
#include "lathe/core/tensor.h"
#include "lathe/data/batch.h"
#include "lathe/nn/module.h"
#include "lathe/optim/optimizer.h"
#include "lathe/profile/memory_forecast.h"
#include "lathe/tools/cli/settings/settings.h"
#include "lathe/tools/cli/training/compute.h"
#include "lathe/train/step_setup.h"

namespace lathe::cli {

/// Draws a batch for a model of this shape from the default generator of `device`. It has no
/// indices.
///   x  [images, in_channels, side, side], normal numbers in --layout; side: --image-size (32)
///   y  [images], labels
data::Batch random_batch(const Settings& settings, const ModelShape& shape, Device device,
                         int64_t images);

/// The parts of the training step that `settings` ask for, with batches of random_batch(). The
/// settings must outlive the result.
train::StepSetup random_step_setup(const Settings& settings);

/// The peak of training steps with random_batch(). They run kernel by kernel, as --layout and --amp
/// say but without a loss scale. Updates the model, and draws from the default generators.
///   images  of the smaller of the two batches
/// throws: what forecast_memory() and training throw.
profile::MemoryForecast forecast_steps(const Settings& settings, const ModelShape& shape,
                                       Device device, nn::Module& model,
                                       optim::Optimizer& optimizer, int64_t images);

}  // namespace lathe::cli
