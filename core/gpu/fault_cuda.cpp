// The fault record of each GPU: made once, read after waits, and cleared. Contract: cuda_backend.h.
#include <atomic>
#include <mutex>

#include "lathe/core/cuda_backend.h"
#include "lathe/core/device_scope.h"
#include "lathe/core/error.h"
#include "lathe/core/gpu/device_fault.h"
#include "lathe/core/gpu/relaxed_capture.h"

namespace lathe::cuda {

namespace {

struct Slot {
  std::once_flag once;
  void *host = nullptr, *memory = nullptr;  // memory of the report, and of the record
  DeviceFault* record = nullptr;
  std::atomic<FaultReport*> report{nullptr};
  std::mutex taking;  // of two threads that waited, only one throws a fault
};
Slot g_slots[kMaxDevices];

/// Neither part is ever freed, because kernels may hold both as long as the process lives.
void make_record(Slot& slot, Device device) {
  const DeviceScope on(device);
  const RelaxedCapture relaxed;
  if (slot.host == nullptr) {  // else an earlier call, which failed later, has made it
    LATHE_CUDA_CHECK(cudaHostAlloc(&slot.host, sizeof(FaultReport), cudaHostAllocPortable));
  }
  if (slot.memory == nullptr) LATHE_CUDA_CHECK(cudaMalloc(&slot.memory, sizeof(DeviceFault)));
  auto* const report = new (slot.host) FaultReport{};
  const DeviceFault record{0, report};
  const OwnedStream apart(device);  // so that it is no part of a capture that may be underway
  const auto stream = static_cast<cudaStream_t>(apart.get().native);
  LATHE_CUDA_CHECK(
      cudaMemcpyAsync(slot.memory, &record, sizeof record, cudaMemcpyHostToDevice, stream));
  LATHE_CUDA_CHECK(cudaStreamSynchronize(stream));
  slot.record = static_cast<DeviceFault*>(slot.memory);
  slot.report.store(report, std::memory_order_release);
}

}  // namespace

DeviceFault* device_fault(Device device) {
  Slot& slot = g_slots[device.index];
  std::call_once(slot.once, [&] { make_record(slot, device); });
  return slot.record;
}

FaultReport take_fault(Device device) {
  Slot& slot = g_slots[device.index];
  FaultReport* const report = slot.report.load(std::memory_order_acquire);
  if (report == nullptr) return {};
  const std::atomic_ref<uint32_t> raised(report->raised);
  if (raised.load(std::memory_order_acquire) == 0) [[likely]]
    return {};
  const Stream stream = current_stream(device);
  if (is_capturing(stream)) return {};
  const std::lock_guard lock(slot.taking);
  if (raised.load(std::memory_order_acquire) == 0) return {};
  const FaultReport found = *report;
  // Kernels write no report while the record is raised, so the report is cleared first.
  raised.store(0, std::memory_order_relaxed);
  const DeviceScope on(device);
  LATHE_CUDA_CHECK(cudaMemsetAsync(&slot.record->raised, 0, sizeof slot.record->raised,
                                   static_cast<cudaStream_t>(stream.native)));
  return found;
}

void check_fault(Device device) {
  const FaultReport fault = take_fault(device);
  LATHE_CHECK(IndexError, fault.raised == 0 || fault.limit >= 0, fault.op, " at position ",
              fault.position, " (noted by a kernel on ", device, " since the last wait)");
  LATHE_CHECK(IndexError, fault.raised == 0, fault.op, ": index ", fault.value, " at position ",
              fault.position, " is outside [0, ", fault.limit, ") (noted by a kernel on ", device,
              " since the last wait)");
}

}  // namespace lathe::cuda
