// The straight line through two measured peaks, and the peak of the update.
#include "lathe/profile/memory_forecast.h"

#include <algorithm>

#include "lathe/core/error.h"
#include "lathe/core/hooks/memory_use.h"

namespace lathe::profile {

int64_t MemoryForecast::largest_batch(int64_t bytes) const {
  constexpr double kMost = 0x1p53;
  const double left = static_cast<double>(bytes) - fixed_bytes;
  if (left < std::max(bytes_per_sample, update_bytes)) return 0;
  return static_cast<int64_t>(bytes_per_sample > 0 ? std::min(left / bytes_per_sample, kMost)
                                                   : kMost);
}

MemoryForecast forecast_memory(Device device, FunctionRef<void(int64_t)> gradients,
                               FunctionRef<void()> update, const ForecastOptions& options) {
  const int64_t small = options.small_batch, large = options.large_batch;
  LATHE_CHECK(ValueError, 0 < small && small < large,
              "forecast_memory: expected 0 < small_batch < large_batch, got ", small, " and ",
              large);
  gradients(small);
  update();
  const auto peak_of = [&](auto&& work) {
    reset_memory_peak(device);
    work();
    return static_cast<double>(memory_use(device).peak);
  };
  const double low = peak_of([&] { gradients(small); });
  const double of_update = peak_of(update);
  const double high = peak_of([&] { gradients(large); });
  update();
  MemoryForecast out;
  out.bytes_per_sample = std::max((high - low) / static_cast<double>(large - small), 0.0);
  out.fixed_bytes = high - out.bytes_per_sample * static_cast<double>(large);
  out.update_bytes = std::max(of_update - out.fixed_bytes, 0.0);
  return out;
}

}  // namespace lathe::profile
