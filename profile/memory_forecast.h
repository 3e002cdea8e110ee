// Predicts the memory that a training step takes at its peak from two steps with small batches.
//
//   const auto f = profile::forecast_memory(device, [&](int64_t batch) { train_on(batch); });
//   std::cout << f.peak(256) << " bytes; at most " << f.largest_batch(limit) << " samples fit";
#pragma once

#include <cstdint>

#include "lathe/core/config.h"
#include "lathe/core/device.h"
#include "lathe/core/function_ref.h"

namespace lathe::profile {

/// The peak of a step as a straight line over the batch size: fixed_bytes + batch *
/// bytes_per_sample. Counts the bytes of tensors and workspaces as memory_use() does, including
/// those that the program held before the step.
struct LATHE_API MemoryForecast {
  double fixed_bytes = 0, bytes_per_sample = 0;

  /// The predicted bytes at the peak of a step with `batch` samples.
  int64_t peak(int64_t batch) const {
    return static_cast<int64_t>(fixed_bytes + bytes_per_sample * static_cast<double>(batch));
  }
  /// The most samples whose peak is at most `bytes`.   → 0 if not even one fits
  int64_t largest_batch(int64_t bytes) const;
};

struct ForecastOptions {
  int64_t small_batch = 32, large_batch = 64;
};

/// Measures the peaks of two batch sizes. Calls step(small_batch) twice, because the first call
/// allocates memory that stays, then step(large_batch). Restarts the peaks of `device`
/// (reset_memory_peak()). The step should be whole: forward, backward and update. The forecast
/// misses memory that does not grow in a straight line with the batch:
///   - an algorithm that is chosen for larger batches only
///   - scratch memory of the CPU's convolutions, which has a minimum size
/// throws: ValueError unless 0 < small_batch < large_batch; what `step` throws.
LATHE_API MemoryForecast forecast_memory(Device device, FunctionRef<void(int64_t)> step,
                                         const ForecastOptions& options = {});

}  // namespace lathe::profile
