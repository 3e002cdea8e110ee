// Where settings come from. Precedence: flags > environment (LATHE_<KEY>) > the config in a resumed
// checkpoint > config file > recipe > defaults. Each of the first four can name the recipe.
// When a run is resumed, the config file is the run's own. The file of --config then counts like
// flags (training/given_flags.h).
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/core/device.h"
#include "lathe/tools/cli/settings/config_file.h"
#include "lathe/tools/cli/settings/settings.h"
#include "lathe/tools/cli/settings/takes.h"

namespace lathe::cli {

/// The settings that each source gives, as text. Empty sources are skipped.
struct SettingSources {
  std::map<std::string, std::string, std::less<>> flags;  // key → text; only those of the command
  std::function<const char*(const char*)> environment;    // getenv, or a test's
  std::string config_path;                                // of the config file; empty: none
  std::optional<std::vector<ConfigEntry>> config;  // the file's entries, if it was read already
  std::string saved_config, saved_name;            // text and name of the config in a checkpoint
  bool of_finished_run = false;           // the config file is that of a run that is not continued
  bool (*has_gpu)() = cuda_is_available;  // asked where a recipe depends on it
};

/// Merges the sources into the settings of a command. `takes` says which settings the command has.
///   - Config file: an entry that only other commands have is checked and then ignored, so that
///     commands can share a file. An entry that no command has is an error.
///   - Environment: only the variables of this command's settings are read.
///   - Config of a finished run: the `weights` that the run started from do not count. For commands
///     that do not train, the settings of the training machine (device, threads, workers, …) do not
///     count either.
/// throws: UsageError naming flag, variable or line.
Settings merge_settings(const SettingSources& sources, const Takes& takes);

/// The entries of the config file: `config` if it is set, else the file is read. The command line
/// sets `config`, because a pipe can be read only once.
/// throws: UsageError if the file cannot be read or parsed.
std::vector<ConfigEntry> config_of(const SettingSources& sources);

/// The value of the variable of a setting; null if it is not set or empty.
const char* variable_of(const SettingSources& sources, const Setting& setting);

/// True if a flag gives the setting. `--model auto` does not count, because it leaves the model
/// open.
bool is_flag_given(const SettingSources& sources, std::string_view key);

/// True if neither a flag nor a variable gives the setting, so that only the config file can give
/// it.
bool is_of_config(const SettingSources& sources, const Setting& setting);

/// The source that gives a setting: "--recipe", "LATHE_RECIPE" or "recipe in job.toml".
std::string place_of(const SettingSources& sources, const Setting& setting);

/// "LATHE_BATCHSIZE is not a setting; did you mean LATHE_BATCH_SIZE?" for each variable in
/// `environment` (as environ) that begins with LATHE_ and is nearly the name of a setting. Other
/// LATHE_ variables may belong to other programs.
std::vector<std::string> mistyped_variables(const char* const* environment);

}  // namespace lathe::cli
