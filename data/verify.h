// The comparison of a data set on this machine with its official checksums.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "lathe/core/config.h"
#include "lathe/data/sources.h"

namespace lathe::data {

enum class FileState { kOk, kDiffers, kMissing };

struct FileReport {
  std::string name;
  FileState state;
  std::filesystem::path path;  // empty if missing
  std::string detail;          // what differs or why it cannot be read; empty if ok
};

/// Reads every file of the set in `directory` (x or x.gz) and compares size and MD5 of its content
/// with the official ones. Never throws for what a file holds: that is what the report is for.
LATHE_API std::vector<FileReport> verify_dataset(const DatasetSource& source,
                                                 const std::filesystem::path& directory);

}  // namespace lathe::data
