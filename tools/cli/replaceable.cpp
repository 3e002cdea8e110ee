// check_replaceable(), check_picture(), written_text().
#include "lathe/tools/cli/replaceable.h"

#include <algorithm>
#include <filesystem>

#include "lathe/core/file.h"
#include "lathe/tools/cli/exit_codes.h"
#include "lathe/tools/cli/formatted.h"
#include "lathe/tools/cli/line_chart.h"

namespace lathe::cli {

void check_replaceable(std::string_view flag, const std::string& path, std::string_view beginning) {
  std::error_code missing;  // if it is no file, the later write reports the error
  if (!std::filesystem::is_regular_file(path, missing)) return;
  const InputFile file(path);
  std::string start(beginning.size(), '\0');
  start.resize(std::min(start.size(), static_cast<size_t>(file.size())));
  file.read(start.data(), static_cast<int64_t>(start.size()), 0);
  if (start.empty() || start == beginning) return;
  throw UsageError(
      formatted("{} {}: is there and does not begin with \"{}\", so it is something else; "
                "expected a new file",
                flag, path, beginning));
}

void check_picture(const std::string& path) {
  if (path.empty()) return;
  check_replaceable("--svg", path, kChartBegin);
  const AtomicFile writable(path);
}

std::string written_text(const std::string& path) {
  std::error_code missing;
  const auto bytes = std::filesystem::file_size(path, missing);
  return missing ? path : formatted("{}: {} bytes", path, bytes);
}

}  // namespace lathe::cli
