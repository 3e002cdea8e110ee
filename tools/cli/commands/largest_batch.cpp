// The halving of the gap, and the questions to the device.
#include "lathe/tools/cli/commands/largest_batch.h"

#include <algorithm>

#include "lathe/core/cuda.h"
#include "lathe/core/memory/host_allocator.h"
#include "lathe/core/process_limits.h"

namespace lathe::cli {

int64_t largest_that_fits(int64_t most, FunctionRef<bool(int64_t)> fits) {
  int64_t good = 0, bad = most + 1;
  for (int64_t next = 1; next < bad; next = std::min(2 * next, most)) {
    if (!fits(next)) {
      bad = next;
      break;
    }
    good = next;
    if (good == most) return most;
  }
  while (good > 0 && bad - good > std::max<int64_t>(good / 32, 1)) {
    const int64_t middle = good + (bad - good) / 2;
    (fits(middle) ? good : bad) = middle;
  }
  return good;
}

int64_t tensors_within(int64_t available) {
  // Steps of a ResNet-18 on two threads were seen to take 70 MiB beside their tensors. A control
  // group of 300 MiB, with a tenth for them, killed the process.
  constexpr int64_t kLeast = 96 << 20;
  return std::max<int64_t>(available - std::max(available / 10, kLeast), 0);
}

int64_t memory_for_tensors(Device device) {
  if (device.is_cuda()) {
    return static_cast<int64_t>(cuda::device_info(device.index).free_bytes +
                                cuda::memory_reserved(device));
  }
  const int64_t available = usable_memory().available;
  if (available == 0) return 0;
  return std::max<int64_t>(
      tensors_within(available) + static_cast<int64_t>(host_allocator().stats().reserved_bytes), 1);
}

}  // namespace lathe::cli
