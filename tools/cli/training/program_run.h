// Going on with the run of a program that trains with train::Trainer: what its checkpoints say of
// the settings of the command, and what they do not say.
#pragma once

#include <string>
#include <string_view>

#include "lathe/nn/checkpoint.h"
#include "lathe/optim/optimizer.h"
#include "lathe/tools/cli/settings/settings_sources.h"
#include "lathe/tools/cli/training/resume.h"

namespace lathe::cli {

/// What the checkpoint of a program says, as the text of a config file: options of its trainer,
/// hyper-parameters of its optimiser, and `lathe.model` and `lathe.dataset` of its metadata.
std::string record_of(const Checkpoint& from);

/// Whether the settings of the run so far include this one: all do, but of a program's run only
/// what its record says.
bool is_known(const StartPoint& start, std::string_view key);

/// Call it before anything is chosen for the run but its model. Does nothing for a run that the
/// command began.
/// throws: UsageError naming the flags that say the rest; CommandError (kData) for a run with which
/// no flags go on.
void check_record(const StartPoint& start, const Settings& settings, const SettingSources& call);

/// Compares the hyper-parameters that have no flag with those of a program's run.
/// throws: UsageError listing those that differ, "dampening 0.1 → 0", unless --allow-changes.
void check_hyper_parameters(const StartPoint& start, const Settings& now,
                            const optim::Optimizer& optimizer);

}  // namespace lathe::cli
