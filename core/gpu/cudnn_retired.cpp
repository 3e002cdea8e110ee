// The lists of retired plans, one pair per device, and the wait that empties them.
#include "lathe/core/gpu/cudnn_retired.h"

#include <array>
#include <mutex>

#include "lathe/core/cuda_backend.h"
#include "lathe/core/device_scope.h"
#include "lathe/core/gpu/launch.h"

namespace lathe::cudnn {

namespace {

using Plans = std::unique_ptr<PlanParts>;  // the first of a list

/// The lists of one device. Never destroyed: at the end of the process the driver may be gone
/// before the last thread.
struct Retired {
  std::mutex mutex;
  Plans waiting, kept;
  size_t count = 0;  // of the waiting plans

  void add(Plans plan, bool for_good) {
    const std::lock_guard lock(mutex);
    Plans& list = for_good ? kept : waiting;
    if (!for_good) ++count;
    plan->next = std::move(list);
    list = std::move(plan);
  }
  Plans take_many() {
    const std::lock_guard lock(mutex);
    if (count <= kMostRetiredPlans) return nullptr;
    count = 0;
    return std::move(waiting);
  }
};

Retired& retired_on(Device device) {
  static auto& all = *new std::array<Retired, cuda::kMaxDevices>;
  return all.at(static_cast<size_t>(device.index));
}

/// Removes and returns the first of a list.
Plans pop(Plans& list) {
  Plans first = std::move(list);
  list = std::move(first->next);
  return first;
}

bool wait_for(Device device) {
  const cuda::DeviceScope on(device);
  detail::count_synchronization();
  if (cudaDeviceSynchronize() == cudaSuccess) return true;
  cudaGetLastError();
  return false;
}

}  // namespace

void retire_plan(std::unique_ptr<PlanParts> plan, bool for_good) noexcept {
  Retired& retired = retired_on(plan->device);
  retired.add(std::move(plan), for_good);
}

void destroy_retired_plans(Device device) noexcept {
  if (cuda::capture_underway(device)) return;
  Retired& retired = retired_on(device);
  Plans plans = retired.take_many();  // retired: nobody queues more of their work
  if (plans == nullptr) return;
  const bool done = wait_for(device);
  while (plans != nullptr) {
    Plans plan = pop(plans);
    if (!done) retired.add(std::move(plan), false);
  }
}

}  // namespace lathe::cudnn
