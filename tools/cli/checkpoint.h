// The weights files of a run: last.safetensors and best.safetensors.
#pragma once

#include <cstdint>
#include <filesystem>

#include "lathe/core/state_dict.h"

namespace lathe::cli {

/// Where in the run a state was reached; goes into the file's metadata with model and data set.
struct Milestone {
  std::string model, dataset;
  int64_t epoch = 0, step = 0;
};

/// Writes a state under the model's entry names, in one step (core/safetensors.h).   throws:
/// FileError.
void save_weights(const std::filesystem::path& path, const StateDict& state, const Milestone& at);

}  // namespace lathe::cli
