// The GPU that --gpu names, for commands that compute without one.
#pragma once

#include <string>
#include <string_view>

#include "lathe/core/machine/gpu_description.h"

namespace lathe::cli {

/// Returns the GPU that --gpu names. Errors name `command`.
/// throws: UsageError if `gpu` is empty, or neither a known GPU nor a file; CommandError (kData) if
/// the file cannot be read; DataError if it does not describe a GPU.
GpuDescription described_gpu(std::string_view command, const std::string& gpu);

}  // namespace lathe::cli
