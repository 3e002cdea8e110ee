// Flags of a training that have no effect, or less, with its device, model, ranks, images or
// length. Those that other settings make idle: settings/without_effect.h.
#pragma once

#include <string>
#include <vector>

#include "lathe/core/device.h"
#include "lathe/nn/module.h"
#include "lathe/tools/cli/settings/settings.h"
#include "lathe/tools/cli/settings/settings_sources.h"
#include "lathe/tools/cli/training/resume.h"
#include "lathe/tools/cli/training/schedule.h"

namespace lathe::cli {

/// The parts from which a training was made.
struct Setup {
  Device device;
  nn::Module& model;
  int64_t ranks;
  const Schedule& schedule;
  const RunImages& images;
};

/// True if the model has a batch norm. --recompute and --sync-batch-norm change only such models.
bool has_batch_norm(nn::Module& model);

/// A text for each flag of the call that has no effect in this training. Settings from the
/// environment and config files are not reported, because these serve many calls. Exceptions,
/// reported from every source: a --step-size that lies beyond the end of the run, and a warm-up
/// shorter than half a step. All settings must be chosen (settings/defaults.h).
std::vector<std::string> idle_flags(const Settings& settings, const SettingSources& sources,
                                    const Setup& setup);

}  // namespace lathe::cli
