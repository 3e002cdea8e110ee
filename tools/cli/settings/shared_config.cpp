// check_shared_config(): by the name, and by what is found there.
#include "lathe/tools/cli/settings/shared_config.h"

#include <filesystem>
#include <system_error>

#include "lathe/core/files/paths.h"
#include "lathe/core/text/formatted.h"
#include "lathe/tools/cli/exit_codes.h"

namespace lathe::cli {
namespace {

namespace fs = std::filesystem;

// /dev/stdin, /dev/fd/3, /proc/self/fd/0: what these names lead to is each process's own, also
// where it is a regular file in this one.
bool names_open_file(const fs::path& path) {
  std::error_code error;  // the working directory may be gone: then it is none of these
  const std::string name = fs::absolute(path, error).lexically_normal().string();
  return name.starts_with("/dev/std") || name.starts_with("/dev/fd/") || name.starts_with("/proc/");
}

}  // namespace

void check_shared_config(const std::string& path) {
  const bool is_shared =
      path.empty() || path == "/dev/null" || (!names_open_file(path) && is_file(path));
  if (is_shared) return;
  throw UsageError(
      formatted("--config {}: every rank reads the config file, so it cannot be stdin or a pipe; "
                "name a regular file",
                path));
}

}  // namespace lathe::cli
