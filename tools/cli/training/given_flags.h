// What a call says that goes on with a run: its flags, and its config file as if it were flags.
#pragma once

#include <map>
#include <string>

#include "lathe/tools/cli/settings/settings_sources.h"

namespace lathe::cli {

/// The flags, and for settings that neither a flag nor the environment gives what the config file
/// says of them. Its entries were checked before, by merge_settings(). An "auto" of the file leaves
/// the choice to others and does not count: a run keeps what was chosen for it.
///   takes  what the command takes
std::map<std::string, std::string, std::less<>> given_flags(const SettingSources& call,
                                                            const Takes& takes);

}  // namespace lathe::cli
