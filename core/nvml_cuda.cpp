// See nvml.h.
#include "lathe/core/nvml.h"

#include <dlfcn.h>

#include <cstdio>

namespace lathe::cuda::nvml {

namespace {

// From the reference: nvmlReturn_t is an int with 0 for success; a device is an opaque pointer.
using Handle = void*;
constexpr int kSuccess = 0;
constexpr int kTemperatureGpu = 0, kClockSm = 1, kClockMemory = 2;
constexpr unsigned kMaxText = 96;

struct Utilization {
  unsigned gpu, memory;  // percent
};
struct ProcessInfo {  // nvmlProcessInfo_t of the _v3 calls
  unsigned pid;
  unsigned long long used_bytes;
  unsigned gpu_instance, compute_instance;
};
constexpr unsigned long long kUnknownBytes = ~0ull;

/// The library, opened once and kept.
struct Library {
  Library() {
    // By the name that drivers install: a directory of development links may be absent.
    void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return;
    bool complete = true;
    const auto find = [&](auto& function, const char* name) {
      function =
          reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      complete = complete && function != nullptr;
    };
    int (*init)() = nullptr;
    find(init, "nvmlInit_v2");
    find(by_address, "nvmlDeviceGetHandleByPciBusId_v2");
    find(uuid, "nvmlDeviceGetUUID");
    find(clock, "nvmlDeviceGetClockInfo");
    find(temperature, "nvmlDeviceGetTemperature");
    find(utilization, "nvmlDeviceGetUtilizationRates");
    find(processes, "nvmlDeviceGetComputeRunningProcesses_v3");
    find(driver, "nvmlSystemGetDriverVersion");
    is_open = complete && init() == kSuccess;
  }

  bool is_open = false;
  int (*by_address)(const char*, Handle*) = nullptr;
  int (*uuid)(Handle, char*, unsigned) = nullptr;
  int (*clock)(Handle, int, unsigned*) = nullptr;
  int (*temperature)(Handle, int, unsigned*) = nullptr;
  int (*utilization)(Handle, Utilization*) = nullptr;
  int (*processes)(Handle, unsigned*, ProcessInfo*) = nullptr;
  int (*driver)(char*, unsigned) = nullptr;
};

const Library& library() {
  static const Library the_library;
  return the_library;
}

}  // namespace

void complete(DeviceInfo& info, PciAddress address) noexcept {
  const Library& nvml = library();
  if (!nvml.is_open) return;
  char bus[32];
  std::snprintf(bus, sizeof bus, "%08X:%02X:%02X.0", static_cast<unsigned>(address.domain),
                static_cast<unsigned>(address.bus), static_cast<unsigned>(address.device));
  Handle device = nullptr;
  if (nvml.by_address(bus, &device) != kSuccess) return;
  char text[kMaxText] = {};
  unsigned number = 0;
  Utilization rates = {};
  if (nvml.uuid(device, text, kMaxText) == kSuccess) info.uuid = text;
  if (nvml.clock(device, kClockSm, &number) == kSuccess) info.clock_mhz = static_cast<int>(number);
  if (nvml.clock(device, kClockMemory, &number) == kSuccess) {
    info.memory_clock_mhz = static_cast<int>(number);
  }
  if (nvml.temperature(device, kTemperatureGpu, &number) == kSuccess) {
    info.temperature_c = static_cast<int>(number);
  }
  if (nvml.utilization(device, &rates) == kSuccess) {
    info.utilization_percent = static_cast<int>(rates.gpu);
  }
  ProcessInfo list[64];
  unsigned count = 64;
  if (nvml.processes(device, &count, list) != kSuccess) return;
  for (unsigned i = 0; i < count; ++i) {
    const bool known = list[i].used_bytes != kUnknownBytes;  // unknown inside some containers
    info.processes.push_back({.id = list[i].pid, .bytes = known ? list[i].used_bytes : 0});
  }
}

std::string driver_version() {
  char text[kMaxText] = {};
  const Library& nvml = library();
  return nvml.is_open && nvml.driver(text, kMaxText) == kSuccess ? text : "";
}

}  // namespace lathe::cuda::nvml
