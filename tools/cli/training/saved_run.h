// A trained model and its data, as eval and predict need them.
#pragma once

#include <memory>

#include "lathe/core/device.h"
#include "lathe/data/images/image_datasets.h"
#include "lathe/nn/module.h"
#include "lathe/tools/cli/settings/settings.h"

namespace lathe::cli {

struct SavedRun {
  Settings settings;  // all definite
  Device device;
  std::shared_ptr<data::ImageDataset> images;
  std::unique_ptr<nn::Module> model;  // on the device, weights loaded
};

/// From --weights, or best.safetensors (else last.safetensors) of --run-dir, whose config.toml is
/// then the config file.
/// throws: UsageError if neither is given or model or dataset are not known; CommandError (kData)
/// for files that are missing or wrong.
SavedRun open_saved_run(const Settings& settings);

}  // namespace lathe::cli
