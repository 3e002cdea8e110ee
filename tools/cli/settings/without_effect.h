// Finds settings without effect: --power with --scheduler cosine, and those of earlier versions.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/tools/cli/settings/settings.h"
#include "lathe/tools/cli/settings/settings_sources.h"

namespace lathe::cli {

/// Setting `key` has an effect only if `chooser` is one of `values`: "poly", or "sgd|lars"; with no
/// values, only if `chooser` is given at all, or on. A device counts without its number: "cuda".
struct Dependence {
  std::string_view key, chooser, values;
  std::string_view instead = {};  // what else helps, or what happens
  bool unless = false;            // the reverse: it has no effect with one of `values`
};

std::span<const Dependence> all_dependences();

/// Of a setting that earlier versions had: why it has no effect any more; "" for any other name.
/// Files may still have it.
std::string_view why_gone(std::string_view key);

/// "config.toml:9: conv-benchmark has no effect any more: …", one text for each such setting in the
/// config file, unless it is off there, and in the environment.
std::vector<std::string> gone_settings(const SettingSources& sources);

/// "--power has no effect with --scheduler cosine, only with poly", one text for each such flag of
/// the call, after gone_settings(). Environment and config files serve many calls (config.toml has
/// every setting), so nothing else from there is reported. Switches that are off and flags that
/// depend on a setting that is still `auto` are not reported either.
std::vector<std::string> flags_without_effect(const Settings& settings,
                                              const SettingSources& sources);

}  // namespace lathe::cli
