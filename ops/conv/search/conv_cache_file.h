// The file in which the convolution search keeps what it found, so that the next start of a program
// need not search. It is JSON: which libraries found it, a checksum, and per key every engine
// with its time (in a list that is called "candidates", as before). `lathe algos show` prints it.
//
// It is a cache: no state of the file is an error for a program that computes, and none changes a
// result. A file that is missing, cut off, damaged, of another kind or written by other libraries
// counts as empty, with one warning unless it is merely missing. Writers replace it as a whole
// (core/files/file.h, AtomicFile) and take turns (core/files/file_lock.h, <path>.lock), so several
// processes may share one file.
//
// Its size is bounded. Each choice has the date of its last use (ConvChoice::used), and those
// unused for longest make room for new ones. So keys of old drivers, models and batch sizes
// disappear by themselves.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "lathe/core/config.h"
#include "lathe/ops/conv/search/conv_choice.h"
#include "lathe/ops/conv/search/conv_key.h"

namespace lathe {

/// No larger file is read or written. A choice takes about 4 kB.
inline constexpr int64_t kMaxConvCacheBytes = int64_t{64} << 20;

/// How much a file may hold.
struct ConvCacheLimits {
  int64_t bytes = kMaxConvCacheBytes;
  size_t choices = 2048;  // a network has about 60
};

using ConvChoices = std::map<ConvKey, ConvChoice>;

/// The libraries that found choices, the same for all choices of a file and equal to those in the
/// keys. The devices may differ: each key names its own.
struct ConvVersions {
  std::string library, runtime, driver;

  bool operator==(const ConvVersions&) const = default;
};
LATHE_API ConvVersions versions_of(const ConvMachine& machine);
/// "cudnn 9.19.0, CUDA 13.0, driver for 13.0".
LATHE_API void append_text(std::string& out, const ConvVersions& versions);

/// What a file holds.
struct ConvCache {
  ConvVersions versions;
  ConvChoices choices;
};

/// "2026-01-31", as written in the file.
LATHE_API std::string date_text(std::chrono::sys_days date);

/// The file's text.
LATHE_API std::string conv_cache_text(const ConvCache& cache);
/// Files of schema 1 have no dates: their choices count as unused since 1970.
/// throws: DataError for a text that is not exactly what conv_cache_text wrote, apart from spaces.
LATHE_API ConvCache parse_conv_cache(std::string_view text);

/// Reads a file.
/// throws: FileError; DataError naming it.
LATHE_API ConvCache read_conv_cache(const std::string& path);

/// The file's choices; none if other versions found them. The state of the file never throws.
LATHE_API ConvChoices load_conv_cache(const std::string& path, const ConvVersions& versions);

/// Adds choices to the file, replacing those with the same keys and those that other versions
/// found. A file that is damaged is replaced; a file that never was a cache is left
/// alone. If the file would exceed the limits, the choices unused for longest are dropped, but
/// never those that are added.
/// throws: FileError.
LATHE_API void add_to_conv_cache(const std::string& path, const ConvCache& added,
                                 const ConvCacheLimits& limits = {});

/// Removes the file. Returns false if there is none.
/// throws: FileError, also for a file that never was a cache.
LATHE_API bool remove_conv_cache(const std::string& path);

}  // namespace lathe
