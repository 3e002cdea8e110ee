// How several ranks start a training: all of them with what rank 0 has found and chosen.
#pragma once

#include <cstdint>
#include <string>

#include "lathe/tools/cli/settings/settings_sources.h"
#include "lathe/tools/cli/training/join_ranks.h"
#include "lathe/tools/cli/training/resume.h"

namespace lathe::cli {

/// Compares the settings with which the ranks were called, except settings of a machine or of the
/// output.
/// throws: DistributedError naming the first rank and setting that differ.
void check_same_call(const Ranks& ranks, const Settings& settings);

/// Gives all ranks the start and the settings of rank 0, except for the settings of
/// settings_beside_first(). `own`: the settings with which this rank was called. Only rank 0 locks
/// and reads the folder.
void share_start(const Ranks& ranks, StartPoint& start, Settings& settings,
                 const SettingSources& own);

/// The settings of a rank other than rank 0, made from rank 0's `config`.
///   - Settings of a machine: those of this rank's own call (flag, variable, config file or
///     default). If its call leaves a choice open ("auto"), rank 0's choice counts.
///   - Threads that its call does not give: the launcher's number. If the run `goes_on`: rank 0's
///     number, which is the checkpoint's, because another number would round differently.
///   - All other settings: those of rank 0.
Settings settings_beside_first(const std::string& config, const SettingSources& own,
                               bool goes_on = false);

/// Gives all ranks the result that check_changes() had on rank 0.
Unchanged share_changes(const Ranks& ranks, const Unchanged& same);

/// The --device of this rank: each rank of a machine has a GPU of its own.
/// throws: UsageError if there are fewer GPUs than ranks, or if --device names a GPU by its number.
std::string device_of_rank(const Ranks& ranks, const std::string& device);

}  // namespace lathe::cli
