// What a training will hold at its peak, measured before its first step.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lathe/core/device.h"
#include "lathe/profile/memory_forecast.h"
#include "lathe/tools/cli/settings/settings.h"
#include "lathe/tools/cli/training/compute.h"

namespace lathe::cli {

/// Forecasts the peak memory of a training with these settings on `device`. The forecast counts the
/// steps, the batches that are read ahead and, on a CPU, the copies of the state
/// (train/snapshot.h). To measure, it makes three steps on a model of its own. The largest step has
/// at most 32 random images, and no more than a batch of the training. If a batch has fewer than 4
/// images, the largest step has 4. All settings must be chosen (settings/defaults.h).
///   steps  of the run
/// Draws from the default generators, so seed them afterwards. Resets the peaks of memory.
/// → nothing if the memory does not suffice for the three steps
/// throws: what training throws, except OutOfMemoryError.
std::optional<profile::MemoryForecast> forecast_peak(const Settings& settings,
                                                     const ModelShape& shape, Device device,
                                                     int64_t steps);

/// "about 1.4 GiB of memory at the peak"; "" without a forecast.
std::string forecast_text(const std::optional<profile::MemoryForecast>& forecast, int64_t batch);

/// If `batch` images need more than `free_bytes`, a line that says so and names the batch that
/// fits; "" otherwise.
std::string forecast_warning(const profile::MemoryForecast& forecast, int64_t batch,
                             int64_t free_bytes);

}  // namespace lathe::cli
