// What `lathe doctor` looks at: plain data, so that a test can plant every fault.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lathe/core/debug/sync_check.h"
#include "lathe/core/device.h"
#include "lathe/nn/module.h"
#include "lathe/tools/cli/settings/settings.h"

namespace lathe::cli {

/// The machine for which the settings are checked.
struct MachineFacts {
  bool gpu = false;               // the configuration computes on one, be it there or not
  bool tensor_cores = false;      // for f16, and from compute capability 8.0 on for TF32 and bf16
  int64_t memory_bytes = 0;       // of the GPU; 0: not known
  int64_t processors = 1;         // that this process may use
  bool fast_convolutions = true;  // on the CPU: oneDNN is there
};

/// Measurements of some steps of the training. If `steps` is 0, nothing was measured.
struct StepFacts {
  int64_t steps = 0;
  double seconds = 0;                        // per step
  double data_wait = 0;                      // fraction of the time spent waiting for data
  std::vector<debug::SyncPlace> waits = {};  // for the GPU; counts are those of all steps
  double sync_wait = 0;                      // fraction of the time the host waited for the GPU
  int64_t zeroed_grads = 0;  // gradients that zero_grad filled with zeros instead of dropping them
  double zeroing = 0;        // fraction of the time that zero_grad took
  // Bytes at the peak of memory: those that do not grow with the batch, and all.
  int64_t fixed_bytes = 0, peak_bytes = 0;
};

struct Facts {
  Settings settings;  // all chosen
  MachineFacts machine;
  std::vector<std::string> biases;  // convolutions with a bias directly before a batch norm
  StepFacts step;
};

/// The convolutions, by name, whose next module in the same parent is a batch norm.
nn::Module::Named<nn::Module*> convolutions_before_norm(nn::Module& model);

/// The names ("features.0") of the convolutions of convolutions_before_norm() that have a bias.
/// Such a bias has no effect, because the batch norm subtracts it.
std::vector<std::string> biases_before_norm(nn::Module& model);

/// The facts about this machine, as this process may use it. `device` is the CPU or an existing
/// GPU.
MachineFacts machine_facts(Device device);

}  // namespace lathe::cli
