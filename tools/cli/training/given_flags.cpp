// given_flags(): entries of the config file below flags and environment.
#include "lathe/tools/cli/training/given_flags.h"

#include <filesystem>

#include "lathe/tools/cli/exit_codes.h"
#include "lathe/tools/cli/formatted.h"
#include "lathe/tools/cli/settings/config_file.h"

namespace lathe::cli {

std::map<std::string, std::string, std::less<>> given_flags(const SettingSources& call,
                                                            unsigned takes) {
  auto given = call.flags;
  if (call.config_path.empty()) return given;
  std::error_code missing;
  if (!std::filesystem::is_regular_file(call.config_path, missing)) {
    throw UsageError(formatted("--config {}: with --resume it is read twice, and so must be a file",
                               call.config_path));
  }
  for (const ConfigEntry& entry : read_config(call.config_path)) {
    const Setting* const setting = find_setting(entry.key);
    if (setting == nullptr || (setting->takes & takes) == 0) continue;
    const std::string variable = environment_name(*setting);
    const char* const value = call.environment ? call.environment(variable.c_str()) : nullptr;
    if (value == nullptr || *value == 0) given.emplace(setting->key, entry.value);
  }
  return given;
}

}  // namespace lathe::cli
