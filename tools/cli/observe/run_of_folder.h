// The run in a folder that the user names.
#pragma once

#include <filesystem>

#include "lathe/train/report/run_files.h"

namespace lathe::cli {

/// Reads the folder with read_run_files(), and the settings from its config.toml unless it is the
/// run of a program. If no checkpoint can be read, a remark gives the error.
/// throws: CommandError (kData) if there is no such folder; DataError if it holds no file of a run.
report::RunFiles run_of_folder(const std::filesystem::path& folder);

}  // namespace lathe::cli
