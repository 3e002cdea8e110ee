// The finished run that --run-dir names: what the folder is, and where its settings stand.
#pragma once

#include <string>
#include <string_view>

namespace lathe::cli {

/// How a command uses the finished run that --run-dir names.
enum class ReadsRun {
  kNo,
  kSettings,  // its config.toml, which must be there
  kWeights    // its checkpoint, too, and its config.toml if there is one
};

/// The config.toml of the run in `folder`. A run of a program (train::Trainer) has none.
/// → the path of the file; "" if the run has none
/// throws: UsageError if `folder` is a file, or if the run has no config.toml and `reads` is
/// kSettings; CommandError (kData) if there is no such folder, if it is empty or no run, or if it
/// cannot be looked at. `command` is for the messages.
std::string config_of_run(const std::string& folder, ReadsRun reads, std::string_view command);

}  // namespace lathe::cli
