// Downloading a data set with progress on stderr, for `lathe data fetch` and `lathe train
// --download`.
#pragma once

#include <filesystem>

#include "lathe/data/images/published_datasets.h"
#include "lathe/tools/cli/settings/settings.h"

namespace lathe::cli {

/// Downloads a data set to --data-root or, without this flag, to ~/.cache/lathe.   → the directory
/// throws: FileError, DataError; CommandError (130, 143) after Ctrl-C or SIGTERM. The next call
/// then continues the download.
std::filesystem::path fetch_dataset_shown(const data::DatasetSource& source,
                                          const Settings& settings);

}  // namespace lathe::cli
