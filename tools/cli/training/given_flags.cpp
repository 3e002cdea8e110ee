// given_flags(): entries of the config file below flags and environment.
#include "lathe/tools/cli/training/given_flags.h"

namespace lathe::cli {

std::map<std::string, std::string, std::less<>> given_flags(const SettingSources& call,
                                                            const Takes& takes) {
  auto given = call.flags;
  for (const ConfigEntry& entry : config_of(call)) {
    const Setting* const setting = find_setting(entry.key);
    if (setting == nullptr || !takes.has(*setting)) continue;
    const bool is_open = entry.value == "auto" && !setting->automatic.empty();
    if (!is_open && variable_of(call, *setting) == nullptr)
      given.emplace(setting->key, entry.value);
  }
  return given;
}

}  // namespace lathe::cli
