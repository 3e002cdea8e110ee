// config_of_run(): what a folder holds, and what to do if it is no run.
#include "lathe/tools/cli/settings/run_config.h"

#include <algorithm>
#include <filesystem>

#include "lathe/core/error.h"
#include "lathe/core/files/paths.h"
#include "lathe/core/text/formatted.h"
#include "lathe/tools/cli/exit_codes.h"
#include "lathe/tools/cli/shell_word.h"
#include "lathe/train/run_checkpoints.h"

namespace lathe::cli {
namespace {

namespace fs = std::filesystem;

constexpr char kConfigFile[] = "config.toml";

// Of a folder with runs below it, such as that of --seeds: how to name the first of these.
std::string run_below(const fs::path& folder, const std::vector<std::string>& names) {
  std::error_code unreadable;  // then there is no hint
  const auto found = std::ranges::find_if(names, [&](const std::string& name) {
    return fs::exists(folder / name / kConfigFile, unreadable);
  });
  return found == names.end()
             ? ""
             : formatted("; did you mean --run-dir {}?", shell_word((folder / *found).string()));
}

[[noreturn]] void fail_without_run(const std::string& folder) {
  const std::vector<std::string> names = names_in(folder);
  if (names.empty())
    throw CommandError(ExitCode::kData, formatted("--run-dir: {} is an empty folder", folder));
  throw CommandError(ExitCode::kData,
                     formatted("--run-dir: {} holds no run (no {}, log, metrics or checkpoint){}",
                               folder, kConfigFile, run_below(folder, names)));
}

}  // namespace

std::string config_of_run(const std::string& folder, ReadsRun reads, std::string_view command) try {
  switch (path_kind(folder)) {
    case PathKind::kFile:
      throw UsageError(formatted("--run-dir: {0} is a file; did you mean --weights {0}?", folder));
    case PathKind::kNothing:
      throw CommandError(ExitCode::kData, formatted("--run-dir: there is no {}", folder));
    default: break;
  }
  const fs::path file = fs::path(folder) / kConfigFile;
  if (is_there(file)) return folder + "/" + kConfigFile;
  if (!train::holds_run(folder)) fail_without_run(folder);
  if (reads == ReadsRun::kWeights) return "";
  throw UsageError(
      formatted("--run-dir: {} has no {} (the run of a program has none), and lathe {} needs its "
                "settings: give them as flags, without --run-dir",
                folder, kConfigFile, command));
} catch (const FileError& e) {
  throw CommandError(ExitCode::kData, formatted("--run-dir: {}", e.message()));
}

}  // namespace lathe::cli
