// Input: the batches that a loop reads: a loader, and how its batches get to the device.
#pragma once

#include <memory>

#include "lathe/data/device/device_batches.h"
#include "lathe/tools/cli/settings/settings.h"
#include "lathe/tools/cli/training/datasets.h"
#include "lathe/train/batches.h"

namespace lathe::cli {

struct Input {
  data::DataLoader loader;
  Device device;
  data::PrefetchOptions prefetch = {};

  data::DeviceBatches batches() { return data::prefetch(loader, device, prefetch); }
  std::unique_ptr<train::Batches> for_training() {
    return train::batches_of(loader, device, prefetch);
  }
};

/// Makes the loader of a training or an evaluation.
///   - On a CPU, or if the images differ in size: the loader's workers transform the images.
///   - Otherwise the GPU gets bytes and transforms them itself, with the same results. The
///     transformed images have the layout of the model and, with --amp, its half type. The
///     transform is taken out of `images`.
///   - With --data-cache gpu all images are on the GPU from the start.
/// throws: UsageError for a data cache that is not possible; CommandError (kData), DataError if its
/// images cannot be read.
Input make_input(const std::shared_ptr<data::ImageDataset>& images, const Settings& settings,
                 Device device, bool training, Share share = {});

/// Refuses images that are kept on a GPU, for commands that time the reading of batches.
/// throws: UsageError for --data-cache gpu.
void refuse_resident_images(const Settings& settings);

}  // namespace lathe::cli
