// Contract: replaceable.h.
#include "lathe/tools/cli/replaceable.h"

#include <algorithm>
#include <filesystem>

#include "lathe/core/error.h"
#include "lathe/core/files/file.h"
#include "lathe/core/files/paths.h"
#include "lathe/core/files/temporary_files.h"
#include "lathe/core/text/formatted.h"
#include "lathe/tools/cli/exit_codes.h"
#include "lathe/train/report/line_chart.h"

namespace lathe::cli {

void sweep_beside(const std::string& path) try {
  const std::filesystem::path end = end_of_links(path);
  sweep_temporary_files(end.has_parent_path() ? end.parent_path() : ".", end.filename().string());
} catch (const FileError&) {  // writing says what is wrong with the folder, if it matters
}

void check_replaceable(std::string_view flag, const std::string& path, std::string_view beginning) {
  const PathKind kind = path_kind(path);
  if (kind == PathKind::kFolder || kind == PathKind::kOther) return;  // writing says what is wrong
  sweep_beside(path);
  if (kind != PathKind::kFile) return;
  const InputFile file(path);
  std::string start(beginning.size(), '\0');
  start.resize(std::min(start.size(), static_cast<size_t>(file.size())));
  file.read(start.data(), static_cast<int64_t>(start.size()), 0);
  if (start.empty() || start == beginning) return;
  throw UsageError(formatted(
      "{} {}: this file does not begin with \"{}\", so lathe does not replace it; name a new file",
      flag, path, beginning));
}

void check_picture(const std::string& path) {
  if (path.empty()) return;
  check_replaceable("--svg", path, report::kChartBegin);
  const AtomicFile writable(path);
}

std::string written_text(const std::string& path) {
  std::error_code unreadable;
  const auto bytes = std::filesystem::file_size(path, unreadable);
  return unreadable ? path : formatted("{}: {} bytes", path, bytes);
}

void check_new_folder(const char* flag, const std::string& folder) {
  if (!is_there(folder)) return;
  if (!is_folder(folder) || !names_in(folder).empty())
    throw UsageError(formatted("{} {}: expected a new folder or an empty one", flag, folder));
}

}  // namespace lathe::cli
