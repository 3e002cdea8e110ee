// Checks before a command writes a result file, and what it says of the file afterwards.
#pragma once

#include <string>
#include <string_view>

namespace lathe::cli {

/// Checks whether the result of `flag`, a text that begins with `beginning`, may replace the file
/// at `path`. The file may be replaced if it is empty or begins with `beginning`, like the result
/// of an earlier call.
/// throws: UsageError for any other file.
void check_replaceable(std::string_view flag, const std::string& path, std::string_view beginning);

/// Removes temporary files beside `path` that a killed process left. check_replaceable() calls it.
void sweep_beside(const std::string& path);

/// Checks the path of --svg, before the work whose chart (line_chart.h) is written there. Does
/// nothing for "".
/// throws: UsageError if check_replaceable() does; FileError if the file cannot be written.
void check_picture(const std::string& path);

/// "w.onnx: 46720 bytes"; the path alone if the file is no longer there.
std::string written_text(const std::string& path);

/// throws: UsageError unless the folder is missing or empty.
void check_new_folder(const char* flag, const std::string& folder);

}  // namespace lathe::cli
