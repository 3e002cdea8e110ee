// The launches by which an optimiser ends a step on a GPU (optim/kernels/), for launch_list.cpp.
#pragma once

#include <string>
#include <vector>

#include "lathe/tools/cli/plan/step_recording.h"
#include "lathe/tools/cli/settings/settings.h"

namespace lathe::cli {

struct OptimizerLaunch {
  std::string kernel;
  double read_bytes = 0, written_bytes = 0;
};

/// The launches of --optimizer over the recording's parameters, in order. With a loss scale or
/// --clip-grad-norm the gradients are looked at first (GradScaler::step, fused); norms for the
/// layers of lars, lamb and novograd are measured after that.
std::vector<OptimizerLaunch> optimizer_launches(const StepRecording& step,
                                                const Settings& settings);

}  // namespace lathe::cli
