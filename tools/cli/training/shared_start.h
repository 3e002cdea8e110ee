// With what the ranks of a training begin: all with what rank 0 has found and chosen.
#pragma once

#include <cstdint>
#include <string>

#include "lathe/tools/cli/settings/settings_sources.h"
#include "lathe/tools/cli/training/join_ranks.h"
#include "lathe/tools/cli/training/resume.h"

namespace lathe::cli {

/// Compares how the ranks were called, but for what belongs to a machine or to the output.
/// throws: DistributedError naming the first rank and setting that differ.
void check_same_call(const Ranks& ranks, const Settings& settings);

/// Gives all ranks the start and the settings of rank 0, but for settings_beside_first(). `own`:
/// how this rank was called. No other rank locks or reads the folder.
void share_start(const Ranks& ranks, StartPoint& start, Settings& settings,
                 const SettingSources& own);

/// The settings of a rank other than rank 0, made from rank 0's `config`.
///   - Settings of a machine: those of this rank's own call (flag, variable, config file or
///     default). A choice that its call leaves open ("auto") is rank 0's.
///   - Threads that its call does not give: those of the launcher. If the run `goes_on`, those of
///     rank 0 and so of the checkpoint, because others would round differently.
///   - All else: as rank 0.
Settings settings_beside_first(const std::string& config, const SettingSources& own,
                               bool goes_on = false);

/// What check_changes() found on rank 0, on all ranks.
Unchanged share_changes(const Ranks& ranks, const Unchanged& same);

/// --device of this rank: each rank of a machine has a GPU of its own.
/// throws: UsageError if there are fewer GPUs than ranks, or if one is named by its number.
std::string device_of_rank(const Ranks& ranks, const std::string& device);

}  // namespace lathe::cli
