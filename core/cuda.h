// Information about GPUs, and settings for them. In a build or on a machine without CUDA the
// functions return 0 or empty values and the settings do nothing, so that one program runs
// everywhere. Functions that need a GPU, device_info() for instance, throw: see their contracts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lathe/core/config.h"
#include "lathe/core/device.h"
#include "lathe/core/fault.h"

namespace lathe::cuda {

/// How many GPUs this process can use. Loads cuDNN and cuBLASLt, and returns 0 if one of them
/// cannot be loaded. The first call that needs a GPU asks the driver, once. Nothing is loaded
/// before that call.
LATHE_API int device_count() noexcept;

/// Why device_count() is 0, as a sentence for users ("no NVIDIA driver is installed", "cuDNN cannot
/// be loaded: …"); empty if it is not 0.
LATHE_API const std::string& unavailable_reason() noexcept;

/// One GPU. Fields that the driver does not report are 0 or empty.
struct DeviceInfo {
  std::string name, uuid;    // "NVIDIA H200", "GPU-3f1c…"
  int major = 0, minor = 0;  // compute capability
  int multiprocessors = 0;
  size_t total_bytes = 0, free_bytes = 0;   // memory; free_bytes counts all processes
  int clock_mhz = 0, memory_clock_mhz = 0;  // now
  int temperature_c = 0, utilization_percent = 0;
  struct Process {
    unsigned id;
    size_t bytes;
  };
  std::vector<Process> processes;  // those that compute on this GPU
  std::string problem;  // why this build cannot compute on it (free_bytes is 0 then), or empty
};

/// throws: DeviceError if there is no such device.
LATHE_API DeviceInfo device_info(int index);

/// Versions such as "13.0"; empty if there is no driver or no CUDA in this build.
struct Versions {
  std::string driver;          // the newest CUDA that the installed driver supports
  std::string runtime;         // the CUDA runtime in this build
  std::string driver_package;  // the driver's own number, "580.65.06"
};
LATHE_API Versions versions();

/// A shared library of NVIDIA's that this build calls. It is loaded when it is first needed.
struct Library {
  std::string name;           // "cuDNN"
  std::string built, loaded;  // "9.19.0": at compile time; of the loaded file, "" before that
  std::string path;           // of the file that was loaded
  std::string problem;        // why it cannot be used or is the wrong version; "" if all is well
};
LATHE_API std::vector<Library> libraries();

// --- memory of one device, in bytes -------------------------------------------------------------
// memory_allocated() counts the blocks in use, rounding included, and memory_reserved() what was
// taken from the driver. max_memory_allocated() and max_memory_reserved() are their peaks since
// reset_peak_memory(). LATHE_EXPANDABLE_SEGMENTS=1 in the environment at the first allocation keeps
// cached memory in a few address ranges that grow in place. It is for programs whose sizes change
// from step to step: without it their cached memory can end up in pieces too small for the next
// request. LATHE_NO_CACHE=1 takes every block from the driver and returns it when it is freed, so
// that compute-sanitizer sees every allocation.
LATHE_API size_t memory_allocated(Device device = Device(DeviceType::kCUDA));
LATHE_API size_t memory_reserved(Device device = Device(DeviceType::kCUDA));
LATHE_API size_t max_memory_allocated(Device device = Device(DeviceType::kCUDA));
LATHE_API size_t max_memory_reserved(Device device = Device(DeviceType::kCUDA));
LATHE_API void reset_peak_memory(Device device = Device(DeviceType::kCUDA));
/// Gives the cached blocks of all devices, and cached pinned memory, back to the driver. Waits for
/// the devices.
/// throws: StateError while a CUDA graph is being captured.
LATHE_API void empty_cache();
/// Limits the bytes taken from the driver (0: no limit).
LATHE_API void set_memory_limit(size_t bytes, Device device = Device(DeviceType::kCUDA));
/// Keeps the latest `events` events of the device's allocator for memory_snapshot(); 0 keeps none.
LATHE_API void set_memory_history(size_t events, Device device = Device(DeviceType::kCUDA));
/// The allocator of the device as JSON: its segments, its blocks with the calls that took them, and
/// recent events.
LATHE_API std::string memory_snapshot(Device device = Device(DeviceType::kCUDA));

/// The fault point of the allocators, for tests of error paths. After fail_at(n), the n-th
/// allocation from then on fails as if the device, or pinned memory, were exhausted.
/// throws: NoCudaError without a GPU; DeviceError if there is no such device.
LATHE_API FaultPoint& allocation_fault(Device device = Device(DeviceType::kCUDA));
LATHE_API FaultPoint& pinned_allocation_fault();

/// Waits until everything queued on `device` is done.
/// throws: CudaError; IndexError for a label or index that a kernel found out of range since the
/// last wait.
LATHE_API void synchronize(Device device = Device(DeviceType::kCUDA));

/// Counts of what this process has done on its GPUs so far.
struct Counters {
  uint64_t launches = 0;          // of Lathe's own kernels
  uint64_t synchronizations = 0;  // times the host waited for a device
  uint64_t driver_allocations = 0;
};
LATHE_API Counters counters() noexcept;

}  // namespace lathe::cuda

namespace lathe::detail {
LATHE_API void count_launch() noexcept;
LATHE_API void count_synchronization() noexcept;
}  // namespace lathe::detail
