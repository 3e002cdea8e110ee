// Fetching a data set with progress on stderr: `lathe data fetch`, `lathe train --download`.
#pragma once

#include <filesystem>

#include "lathe/data/sources.h"
#include "lathe/tools/cli/settings/settings.h"

namespace lathe::cli {

/// Fetches below --data-root, or below ~/.cache/lathe without one.   → the directory
/// throws: FileError, DataError; CommandError (130, 143) after Ctrl-C or SIGTERM: what has arrived
/// stays for the next call.
std::filesystem::path fetch_dataset_shown(const data::DatasetSource& source,
                                          const Settings& settings);

}  // namespace lathe::cli
