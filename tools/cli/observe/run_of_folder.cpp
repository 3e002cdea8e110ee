// From a folder to its run. Contract: run_of_folder.h.
#include "lathe/tools/cli/observe/run_of_folder.h"

#include "lathe/core/error.h"
#include "lathe/core/text/formatted.h"
#include "lathe/tools/cli/settings/config_file.h"
#include "lathe/tools/cli/training/program_run.h"
#include "lathe/tools/cli/training/reading_data.h"

namespace lathe::cli {

report::RunFiles run_of_folder(const std::filesystem::path& folder) {
  return reading_data([&] {
    bool is_of_program = false;
    std::string unreadable;
    try {
      is_of_program = is_run_of_program(folder);
    } catch (const Error& e) {
      unreadable = e.message();
    }
    if (is_of_program) return report::read_run_files(folder);
    if (!unreadable.empty()) {
      report::RunFiles run = report::read_run_files(folder);
      run.remarks.push_back(formatted(
          "{}. There is no config.toml either, so the settings are not known.", unreadable));
      return run;
    }
    return report::read_run_files(folder, [](const std::string& text) {
      report::RunFiles::Entries entries;
      for (const ConfigEntry& entry : parse_config(text, "config.toml"))
        entries.emplace_back(entry.key, entry.value);
      return entries;
    });
  });
}

}  // namespace lathe::cli
