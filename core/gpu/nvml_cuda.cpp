// Opens NVML and asks it; what cannot be asked is left out.
#include "lathe/core/gpu/nvml.h"

#include <cstdio>
#include <optional>

#include "lathe/core/error.h"
#include "lathe/core/gpu/cuda_libraries.h"

namespace lathe::cuda::nvml {

namespace {

// From the reference: an nvmlReturn_t is an int, 0 for success; a device is an opaque pointer.
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

struct Functions {
  SharedLibrary& library;
  int (*init)() = library.find("nvmlInit_v2");
  int (*by_address)(const char*, Handle*) = library.find("nvmlDeviceGetHandleByPciBusId_v2");
  int (*uuid)(Handle, char*, unsigned) = library.find("nvmlDeviceGetUUID");
  int (*clock)(Handle, int, unsigned*) = library.find("nvmlDeviceGetClockInfo");
  int (*temperature)(Handle, int, unsigned*) = library.find("nvmlDeviceGetTemperature");
  int (*utilization)(Handle, Utilization*) = library.find("nvmlDeviceGetUtilizationRates");
  int (*processes)(Handle, unsigned*,
                   ProcessInfo*) = library.find("nvmlDeviceGetComputeRunningProcesses_v3");
  int (*driver)(char*, unsigned) = library.find("nvmlSystemGetDriverVersion");
};

/// Empty if NVML is missing, is too old or refuses.
std::optional<Functions> open_nvml() {
  // By the name that drivers install: the link for development may be absent.
  static auto& library =
      *new SharedLibrary({.name = "NVML", .file = "libnvidia-ml.so.1"}, library_loader());
  try {
    const Functions functions{library};
    if (functions.init() == kSuccess) return functions;
  } catch (const NoCudaError&) {
  }
  return std::nullopt;
}

/// Found by the first call and kept.
const std::optional<Functions>& functions() {
  static const std::optional<Functions> the_functions = open_nvml();
  return the_functions;
}

}  // namespace

void complete(DeviceInfo& info, PciAddress address) noexcept {
  const std::optional<Functions>& nvml = functions();
  if (!nvml) return;
  char bus[32];
  std::snprintf(bus, sizeof bus, "%08X:%02X:%02X.0", static_cast<unsigned>(address.domain),
                static_cast<unsigned>(address.bus), static_cast<unsigned>(address.device));
  Handle device = nullptr;
  if (nvml->by_address(bus, &device) != kSuccess) return;
  char text[kMaxText] = {};
  unsigned number = 0;
  Utilization rates = {};
  if (nvml->uuid(device, text, kMaxText) == kSuccess) info.uuid = text;
  if (nvml->clock(device, kClockSm, &number) == kSuccess) info.clock_mhz = static_cast<int>(number);
  if (nvml->clock(device, kClockMemory, &number) == kSuccess) {
    info.memory_clock_mhz = static_cast<int>(number);
  }
  if (nvml->temperature(device, kTemperatureGpu, &number) == kSuccess) {
    info.temperature_c = static_cast<int>(number);
  }
  if (nvml->utilization(device, &rates) == kSuccess) {
    info.utilization_percent = static_cast<int>(rates.gpu);
  }
  ProcessInfo list[64];
  unsigned count = 64;
  if (nvml->processes(device, &count, list) != kSuccess) return;
  for (unsigned i = 0; i < count; ++i) {
    const bool known = list[i].used_bytes != kUnknownBytes;  // unknown inside some containers
    info.processes.push_back({.id = list[i].pid, .bytes = known ? list[i].used_bytes : 0});
  }
}

std::string driver_version() {
  char text[kMaxText] = {};
  const std::optional<Functions>& nvml = functions();
  return nvml && nvml->driver(text, kMaxText) == kSuccess ? text : "";
}

}  // namespace lathe::cuda::nvml
