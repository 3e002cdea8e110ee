// Downloads of data sets: resumable, checked, all or nothing. http.h transfers, tar.h unpacks.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "lathe/core/config.h"
#include "lathe/data/images/published_datasets.h"

namespace lathe::data {

struct FetchProgress {
  std::string url;
  int64_t done_bytes;  // with those that an earlier call had brought
  int64_t total_bytes;
};

struct FetchOptions {
  std::function<bool(const FetchProgress&)> progress = {};  // at least every second; false cancels
  int64_t connect_timeout_ms = 5000;
  int64_t stall_timeout_s = 30;  // slower than that for this long, a connection counts as broken
  int64_t least_bytes_per_s = 1000;  // 0: any byte is progress
  int64_t attempts = 5;     // give up after this many broken connections in a row without progress
  int64_t pause_ms = 1000;  // before the next connection; each one without progress doubles it
};

/// Downloads `download` to `target`. The bytes are collected in `target`.part. After a broken
/// connection it connects again. A connection makes progress if it brings at least what
/// least_bytes_per_s bring in stall_timeout_s, beyond the most bytes that were there so far. A
/// broken or cancelled transfer leaves the part file and the next call continues it (a server
/// without ranges starts again). At the end size and MD5 are checked, and the file is synced and
/// renamed to `target`. A file that does not match is removed; if it held bytes of an earlier call,
/// the download is first tried once more from the start.
/// throws: FileError (unreachable, refused by the server, broken too often, cancelled, disk full,
/// another process is downloading it, no libcurl); DataError (more, fewer or other bytes than
/// published).
LATHE_API void fetch_file(const Download& download, const std::filesystem::path& target,
                          const FetchOptions& options = {});

/// Makes `root`/`source.folders[0]` hold every file of the set and returns that directory. Keeps
/// files whose checksum matches; if all do, nothing is downloaded.
/// throws: as fetch_file and extract_tar.
LATHE_API std::filesystem::path fetch_dataset(const DatasetSource& source,
                                              const std::filesystem::path& root,
                                              const FetchOptions& options = {});

/// False in a build without libcurl: then every download throws FileError.
LATHE_API bool fetch_available();

}  // namespace lathe::data
