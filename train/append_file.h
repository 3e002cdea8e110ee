// Files that lines are appended to while a training runs: metrics and logs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lathe/core/config.h"

namespace lathe::train {

/// Opens a regular file to append lines to. Creates it if it is missing.   → a descriptor
/// throws: FileError.
LATHE_API int open_to_append(const std::string& path);
/// Like open_to_append(), for a file that must not exist yet.
LATHE_API int open_new(const std::string& path);

/// Appends all of `text`. Messages call the file `path`.
/// throws: FileError; a part of the text may be in the file then.
LATHE_API void append_to(int descriptor, std::string_view text, const std::string& path);

/// Keeps the first `lines` complete lines of a file, or all if there are fewer.
/// → how many it kept
/// throws: FileError.
LATHE_API int64_t cut_lines(int descriptor, const std::string& path, int64_t lines);

}  // namespace lathe::train
