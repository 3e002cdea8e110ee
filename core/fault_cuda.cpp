// The fault record of each GPU; see device_fault.h.
#include "lathe/core/device_fault.h"

#include <atomic>
#include <mutex>

#include "lathe/core/cuda_backend.h"
#include "lathe/core/device_scope.h"
#include "lathe/core/error.h"

namespace lathe::cuda {

namespace {

struct Slot {
  std::once_flag once;
  DeviceFault* record = nullptr;
  std::atomic<bool> used{false};  // a kernel got the record since it was last read
};
Slot g_slots[kMaxDevices];

}  // namespace

DeviceFault* device_fault(Device device) {
  Slot& slot = g_slots[device.index];
  std::call_once(slot.once, [&] {
    const DeviceScope on(device);
    void* memory = nullptr;
    LATHE_CUDA_CHECK(cudaMalloc(&memory, sizeof(DeviceFault)));
    LATHE_CUDA_CHECK(cudaMemsetAsync(memory, 0, sizeof(DeviceFault), nullptr));
    LATHE_CUDA_CHECK(cudaStreamSynchronize(nullptr));
    slot.record = static_cast<DeviceFault*>(memory);
  });
  slot.used.store(true, std::memory_order_relaxed);
  return slot.record;
}

DeviceFault take_fault(Device device) {
  const DeviceScope on(device);
  const cudaStream_t stream = static_cast<cudaStream_t>(current_stream(device).native);
  DeviceFault* const record = device_fault(device);
  DeviceFault fault;
  LATHE_CUDA_CHECK(cudaMemcpyAsync(&fault, record, sizeof fault, cudaMemcpyDeviceToHost, stream));
  LATHE_CUDA_CHECK(cudaStreamSynchronize(stream));
  if (fault.raised != 0) LATHE_CUDA_CHECK(cudaMemsetAsync(record, 0, sizeof fault, stream));
  g_slots[device.index].used.store(false, std::memory_order_relaxed);
  return fault;
}

void check_fault(Device device) {
  if (!g_slots[device.index].used.load(std::memory_order_relaxed)) return;
  const DeviceFault fault = take_fault(device);
  LATHE_CHECK(IndexError, fault.raised == 0, fault.op, ": index ", fault.value, " at position ",
              fault.position, " is outside [0, ", fault.limit, ") (noted by a kernel on ", device,
              " since the last wait)");
}

}  // namespace lathe::cuda
