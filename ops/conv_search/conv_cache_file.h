// The file in which the convolution search keeps what it found, so that the next start searches
// nothing. JSON: which libraries found it, a checksum, and per key every candidate with its time.
// `lathe algos show` prints it.
//
// It is a cache: no state of the file is an error for a program that computes, and none changes a
// result. A file that is missing, cut off, damaged, of another kind or found by other libraries
// counts as empty, with one warning unless it is just missing. Writers replace it as a whole
// (core/file.h, AtomicFile) and take turns (core/file_lock.h, <path>.lock), so that several
// processes may share one.
//
// It is bounded: each choice says when it was last used (ConvChoice::used), and those not used for
// longest make room for new ones. So keys of old drivers' days, models and batch sizes go by
// themselves.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "lathe/core/config.h"
#include "lathe/ops/conv_search/conv_key.h"
#include "lathe/ops/conv_search/conv_trials.h"

namespace lathe {

/// No larger file is read, nor written. A choice takes some 4 kB.
inline constexpr int64_t kMaxConvCacheBytes = int64_t{64} << 20;

/// How much a file may hold.
struct ConvCacheLimits {
  int64_t bytes = kMaxConvCacheBytes;
  size_t choices = 2048;  // a network has some 60
};

using ConvChoices = std::map<ConvKey, ConvChoice>;

/// The libraries that found the choices in a file: all of them the same, and those of its keys.
/// (The devices may differ: a key holds its own.)
struct ConvVersions {
  std::string library, runtime, driver;

  bool operator==(const ConvVersions&) const = default;
};
LATHE_API ConvVersions versions_of(const ConvMachine& machine);
LATHE_API void append_text(std::string& out, const ConvVersions& versions);  // "cudnn 9.19.0, …"

/// What a file holds.
struct ConvCache {
  ConvVersions versions;
  ConvChoices choices;
};

/// "2026-01-31", as the file has it.
LATHE_API std::string date_text(std::chrono::sys_days date);

/// The file's text.
LATHE_API std::string conv_cache_text(const ConvCache& cache);
/// throws: DataError for a text that is not exactly what conv_cache_text wrote, apart from spaces.
/// (Files of schema 1 have no dates: their choices count as not used since 1970.)
LATHE_API ConvCache parse_conv_cache(std::string_view text);

/// Reads a file.   throws: FileError; DataError naming it.
LATHE_API ConvCache read_conv_cache(const std::string& path);

/// The file's choices, none if these versions did not find them. Never throws for what the file is.
LATHE_API ConvChoices load_conv_cache(const std::string& path, const ConvVersions& versions);

/// Adds choices to the file, in the place of those with the same keys. What other versions found,
/// or is damaged, is replaced; a file that never was a cache is left alone. Where it would outgrow
/// the limits what was not used for longest is dropped, never what is added.
/// throws: FileError.
LATHE_API void add_to_conv_cache(const std::string& path, const ConvCache& added,
                                 const ConvCacheLimits& limits = {});

/// Removes the file.   → false if there is none
/// throws: FileError, also for a file that never was a cache.
LATHE_API bool remove_conv_cache(const std::string& path);

}  // namespace lathe
