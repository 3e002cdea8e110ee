// Where settings come from. Precedence: flags > environment (LATHE_<KEY>) > the config in a resumed
// checkpoint > config file > recipe > defaults. All but the last two of these can name the recipe.
// Where a run goes on, the config file is the run's own, and that of --config counts as flags do
// (training/given_flags.h).
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

/// What was found, as text. Empty places are skipped.
struct SettingSources {
  std::map<std::string, std::string, std::less<>> flags;  // key → text; only those of the command
  std::function<const char*(const char*)> environment;    // getenv, or a test's
  std::string config_path;                                // of the config file; empty: none
  std::optional<std::vector<ConfigEntry>> config;         // what it says, where it was read before
  std::string saved_config, saved_name;   // text and name of the config in a checkpoint
  bool of_finished_run = false;           // the config file is that of a run that is not continued
  bool (*has_gpu)() = cuda_is_available;  // asked where a recipe depends on it
};

/// The settings of a command; `takes` says which. An entry of the config file that only other
/// commands have is checked and ignored, so that commands can share a file; an entry that no
/// command has is an error that names the nearest key. The environment is treated alike, except
/// that only the variables of this command's settings are read. The config of a finished run counts
/// without the `weights` (and their section) that the run started from; for commands that do not
/// train (eval, predict) also without what suited the machine that trained: device, threads,
/// workers, ….
/// throws: UsageError naming flag, variable or line.
Settings merge_settings(const SettingSources& sources, const Takes& takes);

/// What the config file says: `config`, or else what is read now. A pipe can be read once, so that
/// the command line keeps what it has read.
/// throws: UsageError if the file cannot be read or parsed.
std::vector<ConfigEntry> config_of(const SettingSources& sources);

/// The value of the variable of a setting; null if it is not set or empty.
const char* variable_of(const SettingSources& sources, const Setting& setting);

/// Whether a flag says the setting. `--model auto` does not: it leaves the model open.
bool is_flag_given(const SettingSources& sources, std::string_view key);

/// Whether neither a flag nor a variable says the setting, so that it can only be of the config
/// file.
bool is_of_config(const SettingSources& sources, const Setting& setting);

/// Where a setting that the call gives is said: "--recipe", "LATHE_RECIPE", "recipe in job.toml".
std::string place_of(const SettingSources& sources, const Setting& setting);

/// "LATHE_BATCHSIZE is no setting; did you mean LATHE_BATCH_SIZE?" for each variable of the
/// environment (as in environ) that begins with LATHE_ and is nearly the name of a setting. Others
/// may belong to programs around this one.
std::vector<std::string> mistyped_variables(const char* const* environment);

}  // namespace lathe::cli
