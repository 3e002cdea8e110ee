// A trained model with its data, for eval and predict.
#pragma once

#include <memory>
#include <string>

#include "lathe/core/device.h"
#include "lathe/data/images/image_datasets.h"
#include "lathe/nn/module.h"
#include "lathe/tools/cli/settings/settings.h"

namespace lathe::cli {

struct SavedRun {
  Settings settings;  // all definite
  Device device;
  std::shared_ptr<data::ImageDataset> images;
  std::unique_ptr<nn::Module> model;  // on the device, weights loaded; what for_inference() made
};

/// The file of --weights or, from --run-dir, best.safetensors (if missing last.safetensors); if
/// neither is given, a file that --model names.
/// throws: UsageError if none is given; CommandError (kData) if the folder has no such file, or
/// --weights is a folder.
std::string weights_of(const Settings& settings);

/// Fails if `file` is a folder, and names the checkpoint in it if there is one.
/// throws: CommandError (kData).
void refuse_folder(const std::string& file);

/// Loads weights_of(settings); the config.toml of --run-dir is then the config file. What a
/// checkpoint in --weights says of its model and data set need not be said again.
/// throws: UsageError if none is named, or model or dataset are unknown; CommandError (kData) for
/// files that are missing or bad.
SavedRun open_saved_run(const Settings& settings);

}  // namespace lathe::cli
