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
  Settings settings;  // all chosen
  Device device;
  std::shared_ptr<data::ImageDataset> images;
  std::unique_ptr<nn::Module> model;  // on the device, weights loaded; what for_inference() made
  bool gives_probabilities = false;   // its results need no softmax
};

/// The file of weights. It is the file of --weights or, from --run-dir, best.safetensors
/// (last.safetensors if there is no best). If neither flag is given, it is the file that --model
/// names.
/// throws: UsageError if none of the three is given; CommandError (kData) if the folder has no such
/// file, or --weights is a folder.
std::string weights_of(const Settings& settings);

/// Whether --weights is given or the folder of --run-dir has such a file.
/// throws: CommandError (kData) if the folder cannot be read.
bool has_weights(const Settings& settings);

/// Fails because nothing says which model the weights in `file` are of. If `file` is from the
/// --run-dir of a program's run, the message says so.
/// throws: UsageError.
[[noreturn]] void fail_unknown_model(const Settings& settings, const std::string& file);

/// Fails if `file` is a folder, and names the checkpoint in it if there is one.
/// throws: CommandError (kData).
void refuse_folder(const std::string& file);

/// Loads the weights in weights_of(settings). With --run-dir, its config.toml is the config file.
/// Model and data set need no flags if the checkpoint in --weights names them.
/// throws: UsageError if no weights are named, or if model or data set are unknown; CommandError
/// (kData) for files that are missing or bad.
SavedRun open_saved_run(const Settings& settings);

}  // namespace lathe::cli
