// What lathe train says at its start: what it trains, on what, and what may be a mistake.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "lathe/core/device.h"
#include "lathe/nn/module.h"
#include "lathe/tools/cli/output.h"
#include "lathe/tools/cli/settings/settings.h"
#include "lathe/tools/cli/training/fine_tuning.h"
#include "lathe/tools/cli/training/resume.h"
#include "lathe/tools/cli/training/run_data.h"

namespace lathe::cli {

struct RunCounts {
  int64_t parameters, images, per_epoch, steps, ranks;
  int64_t begin;       // the step from which it goes on
  std::string memory;  // forecast_text()
};

/// Says which parameters are frozen, which layers have adapters, and which parameters of an ONNX
/// file may be constants. Warns of a new head that is frozen, and of an ONNX file without norms.
void say_what_trains(nn::Module& model, const Settings& settings, const Tuned& tuned, Log& log);

/// Says which model is trained on which data, from where training goes on, and what may be a
/// mistake in the data. Call it when the run has its folder.
void say_start(const Settings& settings, const RunData& data, const StartPoint& start,
               const Unchanged& same, const RunCounts& counts, Device device, Log& log);

}  // namespace lathe::cli
