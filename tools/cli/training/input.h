// What a loop over batches reads: a loader, and what becomes of its batches on their way to the
// device that computes.
#pragma once

#include <memory>

#include "lathe/data/device_batches.h"
#include "lathe/tools/cli/settings/settings.h"
#include "lathe/tools/cli/training/datasets.h"

namespace lathe::cli {

struct Input {
  data::DataLoader loader;
  Device device;
  data::PrefetchOptions prefetch = {};

  data::DeviceBatches batches() { return data::prefetch(loader, device, prefetch); }
};

/// On a CPU the loader's workers transform the images. A GPU gets bytes and transforms them itself,
/// to the same numbers, in the layout that the model wants; with --data-cache gpu the images are
/// there from the start. Takes the transform out of `images` then. Images of many sizes are always
/// transformed by the workers.
/// throws: UsageError for a data cache that cannot be had; CommandError (kData), DataError if its
/// images cannot be read.
Input make_input(const std::shared_ptr<data::ImageDataset>& images, const Settings& settings,
                 Device device, bool training);

/// For commands that time how batches are read.
/// throws: UsageError for --data-cache gpu.
void refuse_resident_images(const Settings& settings);

}  // namespace lathe::cli
