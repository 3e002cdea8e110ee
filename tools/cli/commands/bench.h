// Timing shared by the bench commands.
#pragma once

#include <cstdint>
#include <optional>

#include "lathe/core/device.h"
#include "lathe/core/function_ref.h"
#include "lathe/train/row.h"

namespace lathe::cli {

/// Seconds per call: the median over windows, and the bounds of their middle half.
struct Timing {
  double median = 0, low = 0, high = 0;
  int64_t windows = 0, calls = 0;
};

struct TimingOptions {
  double warm_up_seconds = 0.5;
  double window_seconds = 0.2;  // a window is as many calls as fit, at least one
  int64_t windows = 11;
  Device device = kCPU;  // a window ends when this device has finished its work
};

/// Returns `options` with times scaled so that warm-up and windows together take `seconds`. Without
/// `seconds` it returns `options` unchanged.
TimingOptions lasting(std::optional<double> seconds, TimingOptions options);

/// Times f: calls it to warm up, then in windows of several calls.
Timing measure(FunctionRef<void()> f, const TimingOptions& options = {});

/// Adds to the row: seconds, seconds_low, seconds_high, windows and `<unit>_per_second`. `units`:
/// how many units one call does.
train::Row& add_timing(train::Row& row, const Timing& timing, const char* unit, double units);

}  // namespace lathe::cli
