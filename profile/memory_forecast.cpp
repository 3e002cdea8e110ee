// The straight line through two measured peaks.
#include "lathe/profile/memory_forecast.h"

#include <algorithm>

#include "lathe/core/error.h"
#include "lathe/core/hooks/memory_use.h"

namespace lathe::profile {

int64_t MemoryForecast::largest_batch(int64_t bytes) const {
  constexpr double kMost = 0x1p53;
  const double left = static_cast<double>(bytes) - fixed_bytes;
  if (left < bytes_per_sample) return 0;
  return static_cast<int64_t>(bytes_per_sample > 0 ? std::min(left / bytes_per_sample, kMost)
                                                   : kMost);
}

MemoryForecast forecast_memory(Device device, FunctionRef<void(int64_t)> step,
                               const ForecastOptions& options) {
  const int64_t small = options.small_batch, large = options.large_batch;
  LATHE_CHECK(ValueError, 0 < small && small < large,
              "forecast_memory: expected 0 < small_batch < large_batch, got ", small, " and ",
              large);
  step(small);
  const auto peak_of = [&](int64_t batch) {
    reset_memory_peak(device);
    step(batch);
    return static_cast<double>(memory_use(device).peak);
  };
  const double low = peak_of(small), high = peak_of(large);
  MemoryForecast out;
  out.bytes_per_sample = std::max((high - low) / static_cast<double>(large - small), 0.0);
  out.fixed_bytes = high - out.bytes_per_sample * static_cast<double>(large);
  return out;
}

}  // namespace lathe::profile
