// What GPUs did, as they saw it themselves: each kernel, copy and fill with its own times, from the
// activity records of NVIDIA's CUPTI. Defined in core/gpu/device_activity_cuda.cpp or, in a build
// without CUPTI's headers, in core/gpu/device_activity_none.cpp.
// ref: CUPTI's documentation, "CUPTI Activity API".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lathe::cuda {

struct DeviceActivity {
  enum class Kind : uint8_t { kKernel, kCopy, kFill };
  Kind kind = Kind::kKernel;
  std::string name;  // of a kernel, demangled; "copy host to GPU", "fill"
  int device = 0;
  uint32_t stream = 0;               // a number of CUPTI's
  int64_t begin_ns = 0, end_ns = 0;  // in the time of the clock given to start_activities
  int64_t bytes = 0;                 // of copies and fills
  uint64_t range = 0;                // of push_activity_range, 0: none
};

/// Begins to record. → false if CUPTI cannot be loaded or refuses; nothing is recorded then
bool start_activities(int64_t (*now_ns)() noexcept) noexcept;
/// Ends it. Waits for the GPUs.
std::vector<DeviceActivity> stop_activities() noexcept;

/// What this thread queues from here on belongs to range `id`, until the pop.
void push_activity_range(uint64_t id) noexcept;
void pop_activity_range() noexcept;

}  // namespace lathe::cuda
