// Timing of the bench commands: warm-up, windows, and the rows that they print.
#include "lathe/tools/cli/commands/bench.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "lathe/core/cuda.h"
#include "lathe/core/seconds_since.h"
#include "lathe/core/text/formatted.h"

namespace lathe::cli {

using train::Row;
namespace {

using Clock = std::chrono::steady_clock;

// Calls f for the given time, at least once.   → seconds per call
double window(FunctionRef<void()> f, double seconds, Device device, int64_t& calls) {
  const auto begin = Clock::now();
  int64_t n = 0;
  do {
    f();
    ++n;
    // A GPU works off a queue, so it is waited for now and then: the queue must not grow for ever.
    if (n % 32 == 0) cuda::synchronize(device);
  } while (seconds_since(begin) < seconds);
  cuda::synchronize(device);
  calls += n;
  return seconds_since(begin) / static_cast<double>(n);
}

}  // namespace

TimingOptions lasting(std::optional<double> seconds, TimingOptions options) {
  if (!seconds) return options;
  const double windows = static_cast<double>(options.windows) * options.window_seconds;
  const double scale = *seconds / (options.warm_up_seconds + windows);
  options.warm_up_seconds *= scale;
  options.window_seconds *= scale;
  return options;
}

Timing measure(FunctionRef<void()> f, const TimingOptions& options) {
  Timing timing;
  window(f, options.warm_up_seconds, options.device, timing.calls);
  std::vector<double> seconds;
  for (int64_t i = 0; i < options.windows; ++i)
    seconds.push_back(window(f, options.window_seconds, options.device, timing.calls));
  std::sort(seconds.begin(), seconds.end());
  const size_t n = seconds.size();
  timing.median = seconds[n / 2];
  timing.low = seconds[n / 4];
  timing.high = seconds[n - 1 - n / 4];
  timing.windows = options.windows;
  return timing;
}

Row& add_timing(Row& row, const Timing& timing, const char* unit, double units) {
  return row.add("seconds", timing.median)
      .add("seconds_low", timing.low)
      .add("seconds_high", timing.high)
      .add("windows", timing.windows)
      .add(formatted("{}_per_second", unit), units / timing.median);
}

}  // namespace lathe::cli
