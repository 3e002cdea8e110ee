// Predicts the memory that a training step takes at its peak from steps with small batches.
//
//   const auto f = profile::forecast_memory(device, [&](int64_t batch) { loss(batch).backward(); },
//                                           [&] { optimizer.step(); optimizer.zero_grad(); });
//   std::cout << f.peak(256) << " bytes; at most " << f.largest_batch(limit) << " samples fit";
#pragma once

#include <cstdint>

#include "lathe/core/config.h"
#include "lathe/core/device.h"
#include "lathe/core/function_ref.h"

namespace lathe::profile {

/// The peak memory of a step as a function of the batch size: fixed_bytes + max(batch *
/// bytes_per_sample, update_bytes). Counts the bytes of tensors and workspaces as memory_use()
/// does, including those that the program held before the step.
struct LATHE_API MemoryForecast {
  double fixed_bytes = 0, bytes_per_sample = 0;
  double update_bytes = 0;  ///< scratch memory of the optimiser, when no activation is left

  /// The predicted bytes at the peak of a step with `batch` samples.
  int64_t peak(int64_t batch) const {
    const double of_batch = bytes_per_sample * static_cast<double>(batch);
    return static_cast<int64_t>(fixed_bytes + (of_batch > update_bytes ? of_batch : update_bytes));
  }
  /// The most samples whose peak is at most `bytes`.   → 0 if not even one fits
  int64_t largest_batch(int64_t bytes) const;
};

struct ForecastOptions {
  int64_t small_batch = 32, large_batch = 64;
};

/// Measures the peaks of two batch sizes and of the update. Makes two steps of small_batch and one
/// of large_batch. The first step is not measured, because it allocates memory that stays. Restarts
/// the peaks of `device` (reset_memory_peak()). The forecast misses memory that does not grow in a
/// straight line with the batch:
///   - memory of an algorithm that is chosen only for larger batches
///   - scratch memory of the CPU's convolutions, which has a minimum size
///   gradients  the forward and the backward pass with that many samples
///   update     the optimiser's step; it must remove the gradients
/// throws: ValueError unless 0 < small_batch < large_batch; what the two functions throw.
LATHE_API MemoryForecast forecast_memory(Device device, FunctionRef<void(int64_t)> gradients,
                                         FunctionRef<void()> update,
                                         const ForecastOptions& options = {});

}  // namespace lathe::profile
