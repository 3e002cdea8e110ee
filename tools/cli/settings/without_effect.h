// Flags that decide nothing beside the other settings: --power with --scheduler cosine.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/tools/cli/settings/settings.h"
#include "lathe/tools/cli/settings/settings_sources.h"

namespace lathe::cli {

/// Setting `key` counts only if setting `chooser` has one of `values`: "poly", or "sgd|lars".
struct Dependence {
  std::string_view key, chooser, values;
};

std::span<const Dependence> all_dependences();

/// "--power has no effect with --scheduler cosine, only with poly", for each flag of the call that
/// has none. Environment and config files are for many calls (config.toml holds every setting), so
/// of what they say nothing is reported; nor are switches that are switched off, and what depends
/// on a setting that is still `auto`.
std::vector<std::string> flags_without_effect(const Settings& settings,
                                              const SettingSources& sources);

}  // namespace lathe::cli
