// The launches by which an optimiser ends a step on a GPU (optim/kernels/), for launch_list.cpp.
#pragma once

#include <string>
#include <vector>

#include "lathe/core/config.h"
#include "lathe/train/plan/step_recording.h"

namespace lathe::plan {

struct OptimizerLaunch {
  std::string kernel;
  double read_bytes = 0, written_bytes = 0;
  bool before_ops = false;  // before the ops that the update runs, newton_schulz() of Muon
};

/// The launches of the recording's optimiser over its parameters, in order. With a loss scale or a
/// limit for the norm, the gradients are looked at first (GradScaler::step, fused). LARS, LAMB,
/// NovoGrad and Adafactor measure the norms of layers after that. Of Muon and Adafactor these are
/// their own kernels and copies; newton_schulz(), the norms and the means of matrices are ops of
/// the recording.
LATHE_API std::vector<OptimizerLaunch> optimizer_launches(const StepRecording& step);

}  // namespace lathe::plan
