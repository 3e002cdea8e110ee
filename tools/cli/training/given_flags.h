// What a call says that goes on with a run: its flags, and its config file as if it were flags.
#pragma once

#include <map>
#include <string>

#include "lathe/tools/cli/settings/settings_sources.h"

namespace lathe::cli {

/// The flags, and for settings that neither a flag nor the environment gives what the config file
/// says of them. The file was read before, so that its entries are known to be right.
///   takes  the command, bits of Takes
/// throws: UsageError for a config file that cannot be read twice.
std::map<std::string, std::string, std::less<>> given_flags(const SettingSources& call,
                                                            unsigned takes);

}  // namespace lathe::cli
