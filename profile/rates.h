// How fast a row of the table ran, and what kept it from running faster.
#pragma once

#include <string_view>

#include "lathe/core/config.h"
#include "lathe/profile/averages.h"

namespace lathe::profile {

/// Rates over the row's self time: on the GPU where that was measured, else on the CPU.
struct Rates {
  double flops_per_second = 0, bytes_per_second = 0;
  double of_peak = 0;  // the larger of both shares of the peaks; 0 if these are not known
};
LATHE_API Rates rates_of(const Average& row, const Peaks& peaks);

/// What bounds a row:
///   "data"     it waits for batches
///   "sync"     it waits for a GPU
///   "launch"   the host takes longer to queue the work than the GPU to do it
///   "overhead" calls so short that their fixed costs dominate, or that move no values
///   "compute"  more operations for each byte than the device has time for
///   "memory"   fewer
///   ""         nothing is known of its work
LATHE_API std::string_view bound_of(const Average& row, const Peaks& peaks);

}  // namespace lathe::profile
