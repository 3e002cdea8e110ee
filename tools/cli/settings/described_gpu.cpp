// --gpu as a description.
#include "lathe/tools/cli/settings/described_gpu.h"

#include "lathe/core/error.h"
#include "lathe/core/text/formatted.h"
#include "lathe/tools/cli/exit_codes.h"

namespace lathe::cli {

GpuDescription described_gpu(std::string_view command, const std::string& gpu) try {
  if (gpu.empty()) {
    throw UsageError(formatted("{}: no GPU is named; give --gpu h200, say, or a file", command));
  }
  return gpu_description(gpu);
} catch (const ValueError& e) {
  throw UsageError("--gpu: " + e.message());
} catch (const FileError& e) {
  throw CommandError(ExitCode::kData, e.message());
}

}  // namespace lathe::cli
