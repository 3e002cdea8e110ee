// Resumes a run that a C++ program began with train::Trainer. Its checkpoints have only some of the
// command's settings.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "lathe/nn/checkpoint.h"
#include "lathe/optim/optimizer.h"
#include "lathe/tools/cli/settings/settings_sources.h"
#include "lathe/tools/cli/training/resume.h"

namespace lathe::cli {

/// True if `folder` holds the run of a program: it has no config.toml, and the first of its
/// checkpoints last and best that can be read is not of the command. False without checkpoints.
/// throws: what the first one threw if there are checkpoints and none can be read (DataError,
/// FileError).
bool is_run_of_program(const std::filesystem::path& folder);

/// Writes the settings in a program's checkpoint as the text of a config file: options of its
/// trainer, hyper-parameters of its optimiser, and `lathe.model` and `lathe.dataset` of its
/// metadata.
std::string record_of(const Checkpoint& from);

/// True if the value of a setting in the run so far is known. A run of the command has all
/// settings, a program's run only those of its record.
bool is_known(const StartPoint& start, std::string_view key);

/// Checks that the command can resume a program's run. Call it when only the model is chosen. Does
/// nothing for a run of the command.
/// throws: UsageError naming the flags that are missing; CommandError (kData) for a run that only
/// the program can resume.
void check_record(const StartPoint& start, const Settings& settings, const SettingSources& call);

/// Compares the optimiser's hyper-parameters that have no flag with those of a program's run.
/// throws: UsageError listing those that differ, "dampening 0.1 → 0", unless --allow-changes.
void check_hyper_parameters(const StartPoint& start, const Settings& now,
                            const optim::Optimizer& optimizer);

}  // namespace lathe::cli
