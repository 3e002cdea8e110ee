// Where settings come from. Precedence: flags > environment (LATHE_<KEY>) > the config in a resumed
// checkpoint > config file > recipe > defaults. All but the last two of these can name the recipe.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/core/device.h"
#include "lathe/tools/cli/settings/settings.h"

namespace lathe::cli {

/// What was found, as text. Empty places are skipped.
struct SettingSources {
  std::map<std::string, std::string, std::less<>> flags;  // key → text; only those of the command
  std::function<const char*(const char*)> environment;    // getenv, or a test's
  std::string config_path;                                // empty: none
  std::string saved_config, saved_name;   // text and name of the config in a checkpoint
  bool of_finished_run = false;           // the config file is that of a run that is not continued
  bool (*has_gpu)() = cuda_is_available;  // asked where a recipe depends on it
};

/// The settings of a command; `takes` is its bit. An entry of the config file that only other
/// commands have is checked and ignored, so that commands can share a file; an entry that no
/// command has is an error that names the nearest key. The environment is treated alike, except
/// that only the variables of this command's settings are read. The config of a finished run counts
/// without the `weights` that the run started from; for commands that do not train (eval, predict)
/// also without what suited the machine that trained: device, threads, workers, ….
/// throws: UsageError naming flag, variable or line.
Settings merge_settings(const SettingSources& sources, unsigned takes);

/// "LATHE_BATCHSIZE is no setting; did you mean LATHE_BATCH_SIZE?" for each variable of the
/// environment (as in environ) that begins with LATHE_ and is nearly the name of a setting. Others
/// may belong to programs around this one.
std::vector<std::string> mistyped_variables(const char* const* environment);

}  // namespace lathe::cli
