// check_replaceable(): which existing files a result may replace. sweep_beside(): what is left of
// one that was not finished. check_picture(): the same for a
// chart. written_text(): what is said of a file once it is written.
#pragma once

#include <string>
#include <string_view>

namespace lathe::cli {

/// Call before `flag` writes a text that begins with `beginning` to `path`. A file that is there
/// already may be replaced if it is empty or begins the same way, as the result of an earlier call
/// does.
/// throws: UsageError for any other file, which would be lost.
void check_replaceable(std::string_view flag, const std::string& path, std::string_view beginning);

/// Removes what a process that was killed while it wrote `path` has left beside it.
/// check_replaceable() does it, too.
void sweep_beside(const std::string& path);

/// Call before the work whose chart (line_chart.h) `--svg` is to write. Does nothing for "".
/// throws: UsageError as above; FileError if the file cannot be written.
void check_picture(const std::string& path);

/// "w.onnx: 46720 bytes"; without the size if somebody has taken the file away.
std::string written_text(const std::string& path);

/// throws: UsageError unless the folder is missing or empty.
void check_new_folder(const char* flag, const std::string& folder);

}  // namespace lathe::cli
