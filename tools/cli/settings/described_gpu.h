// The GPU that --gpu names, for commands that compute without one.
#pragma once

#include <string>
#include <string_view>

#include "lathe/core/machine/gpu_description.h"

namespace lathe::cli {

/// The GPU of --gpu, for `command`.
/// throws: UsageError if none is named, or neither a known GPU nor a file; CommandError (kData) for
/// a file that cannot be read; DataError for one that describes no GPU.
GpuDescription described_gpu(std::string_view command, const std::string& gpu);

}  // namespace lathe::cli
