// What stands in the place of device_activity_cuda.cpp in a build without CUPTI's headers.
// Contract: device_activity.h.
#include "lathe/core/device_activity.h"

namespace lathe::cuda {

bool start_activities(int64_t (*)() noexcept) noexcept { return false; }
std::vector<DeviceActivity> stop_activities() noexcept { return {}; }
void push_activity_range(uint64_t) noexcept {}
void pop_activity_range() noexcept {}

}  // namespace lathe::cuda
