// FoundSetting: checks of the config file before a search, and the change of one line after it.
#include "lathe/tools/cli/commands/found_setting.h"

#include <filesystem>
#include <utility>

#include "lathe/core/files/file.h"
#include "lathe/core/text/formatted.h"
#include "lathe/tools/cli/exit_codes.h"
#include "lathe/tools/cli/settings/config_file.h"

namespace lathe::cli {

FoundSetting::FoundSetting(std::string path, std::string_view key)
    : path_(std::move(path)), key_(key) {
  if (path_.empty()) return;
  parse_config(present(), path_);
  const AtomicFile writable(path_);
}

std::string FoundSetting::present() const {
  std::error_code unreadable;  // reading it reports the reason
  const auto kind = std::filesystem::status(path_, unreadable).type();
  return kind == std::filesystem::file_type::not_found ? "" : read_config_text(path_);
}

std::string FoundSetting::write(std::string_view value) const {
  if (path_.empty()) return "";
  write_file_atomic(path_, with_value(present(), path_, key_, value));
  return formatted("{}: {} = {}", path_, key_, value);
}

void FoundSetting::fail_without_value(std::string_view reason) const {
  if (path_.empty()) return;
  throw CommandError(ExitCode::kCheckFailed,
                     formatted("--write-config: {} is unchanged: {}", path_, reason));
}

}  // namespace lathe::cli
