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

/// Downloads `download` to `target`. Collects the bytes in `target`.part, checks their number and
/// MD5, syncs the file and renames it to `target`.
///   - A broken connection: it connects again and continues. A connection makes progress if it adds
///     at least least_bytes_per_s * stall_timeout_s bytes to those that were there before.
///   - A broken or cancelled call: the part file stays, and the next call continues it, or starts
///     again if the server cannot send parts of a file.
///   - Wrong bytes: the part file is removed. If an earlier call began it, this call first tries
///     once more from the start.
/// throws: DataError for more, fewer or other bytes than published; FileError for all else: server
/// not reached or refusing, too many broken connections, cancelled, disk full, another process is
/// downloading the file, no libcurl.
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
