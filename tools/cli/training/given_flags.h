// The settings that a call gives which resumes a run: its flags, and its config file as if its
// entries were flags.
#pragma once

#include <map>
#include <string>

#include "lathe/tools/cli/settings/settings_sources.h"

namespace lathe::cli {

/// The flags of the call, and the entries of the config file for settings that neither a flag nor
/// the environment gives. merge_settings() has checked these entries. An "auto" in the file does
/// not count, because a run keeps what was chosen for it.
///   takes  the settings that the command takes
std::map<std::string, std::string, std::less<>> given_flags(const SettingSources& call,
                                                            const Takes& takes);

}  // namespace lathe::cli
