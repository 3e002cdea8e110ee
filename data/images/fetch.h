// Downloads of data sets: resumable, checked, all or nothing. http.h does the transfer, tar.h the
// unpacking.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "lathe/core/config.h"
#include "lathe/data/sources.h"

namespace lathe::data {

struct FetchProgress {
  std::string url;
  int64_t done_bytes;  // including what an earlier call had brought
  int64_t total_bytes;
};

struct FetchOptions {
  std::function<bool(const FetchProgress&)> progress = {};  // each second at least; false cancels
  int64_t connect_timeout_ms = 5000;
  int64_t stall_timeout_s = 30;  // nothing received for so long: the connection counts as broken
  int64_t attempts = 3;          // connections in a row that broke without bringing a byte
};

/// Brings `download` to `target`. The bytes gather in `target`.part, which a broken or cancelled
/// transfer leaves and the next call continues (a server without ranges begins again). At the end
/// size and MD5 are compared, the file is synced and renamed to `target`. A file that does not
/// match is removed; where it held bytes of an earlier call the download is first tried once more
/// from the start.
/// throws: FileError (unreachable, refused by the server, broken too often, cancelled, disk full,
/// another process is downloading it, no libcurl), DataError (more bytes, fewer or others than
/// published).
LATHE_API void fetch_file(const Download& download, const std::filesystem::path& target,
                          const FetchOptions& options = {});

/// Makes `root`/`source.folders[0]` hold every file of the set and returns that directory. Files
/// that are there and match their checksum are kept; if all are, nothing is downloaded.
/// throws: as fetch_file and extract_tar.
LATHE_API std::filesystem::path fetch_dataset(const DatasetSource& source,
                                              const std::filesystem::path& root,
                                              const FetchOptions& options = {});

/// False in a build without libcurl: then every download throws FileError.
LATHE_API bool fetch_available();

}  // namespace lathe::data
