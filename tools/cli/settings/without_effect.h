// Finds settings without effect: --power with --scheduler cosine, and settings that only earlier
// versions had.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/tools/cli/settings/settings.h"
#include "lathe/tools/cli/settings/settings_sources.h"

namespace lathe::cli {

/// Setting `key` has an effect only if the setting `chooser` has one of `values`, such as
/// "sgd|lars". With empty `values`, `key` has an effect only if `chooser` is given or, if `chooser`
/// is a switch, on. Devices are compared without their numbers: "cuda".
struct Dependence {
  std::string_view key, chooser, values;
  std::string_view instead = {};  // end of the message: what else helps, or what happens
  bool unless = false;            // the reverse: `key` has no effect with one of `values`
};

std::span<const Dependence> all_dependences();

/// Why a setting of earlier versions no longer has an effect; "" for any other name. Config files
/// may still have such a setting.
std::string_view why_gone(std::string_view key);

/// "config.toml:9: conv-benchmark has no effect any more: …", one text for each such setting in the
/// config file or the environment. A setting that the file turns off is not reported.
std::vector<std::string> gone_settings(const SettingSources& sources);

/// The texts of gone_settings(), then a text for each flag of the call that has no effect: "--power
/// has no effect with --scheduler cosine, only with poly". Not reported:
///   - settings from the environment and config files, which serve many calls;
///   - switches that are off;
///   - flags that depend on a setting that is still `auto`.
std::vector<std::string> flags_without_effect(const Settings& settings,
                                              const SettingSources& sources);

}  // namespace lathe::cli
