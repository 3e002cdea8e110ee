// Where settings come from: flags > environment (LATHE_<KEY>) > what a resumed checkpoint says >
// config file > defaults.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "lathe/tools/cli/settings/settings.h"

namespace lathe::cli {

/// What was found, as text; empty places are skipped.
struct SettingSources {
  std::map<std::string, std::string, std::less<>> flags;  // key → text; only those of the command
  std::function<const char*(const char*)> environment;    // getenv, or a test's
  std::string config_path;                                // empty: none
  std::string saved_config, saved_name;  // a config file's text that a checkpoint holds, above it
  bool of_finished_run = false;  // the config file is that of a run: its --weights were its start
};

/// The settings of a command, `takes` its bit. An entry of the config file that other commands know
/// and this one does not is checked and left out, so that commands can share a file; an entry that
/// none knows is an error that names the nearest key. So with the environment, where only the
/// variables of this command's settings are read.
/// throws: UsageError naming flag, variable or line.
Settings merge_settings(const SettingSources& sources, unsigned takes);

}  // namespace lathe::cli
