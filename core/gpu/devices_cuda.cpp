// Which GPUs there are, and what is known about them. The driver is asked once, by the first call
// that needs to know. GPUs count only if the libraries that compute on them can be loaded.
#include <algorithm>
#include <array>
#include <cstdint>

#include "lathe/core/cuda_backend.h"
#include "lathe/core/device_scope.h"
#include "lathe/core/error.h"
#include "lathe/core/gpu/cuda_libraries.h"
#include "lathe/core/gpu/launch.h"
#include "lathe/core/gpu/nvml.h"

namespace lathe::cuda {

namespace {

thread_local const char* t_call = nullptr;

struct Machine {
  int count = 0;
  std::string reason;  // why count is 0
};

std::string version_text(int version) {  // 13000
  if (version == 0) return {};
  return concat(version / 1000, ".", version % 1000 / 10);
}

std::string reason_of(cudaError_t error) {
  int driver = 0, runtime = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  cudaGetLastError();
  switch (error) {
    case cudaErrorInsufficientDriver:
      if (driver == 0) return "no NVIDIA driver is installed";
      return concat("the NVIDIA driver supports CUDA ", version_text(driver),
                    ", but this build needs ", version_text(runtime));
    case cudaErrorNoDevice: return "the NVIDIA driver shows no GPU (see CUDA_VISIBLE_DEVICES)";
    default: return concat("the CUDA runtime answers: ", cudaGetErrorString(error));
  }
}

Machine ask() {
  Machine machine;
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess && count > 0) {
    machine.reason = load_problem(std::array{cudnn_library(), cublas_library()});
    if (machine.reason.empty()) machine.count = std::min(count, kMaxDevices);
  } else {
    // A failed call leaves its error behind as the thread's last error.
    cudaGetLastError();
    machine.reason = reason_of(error == cudaSuccess ? cudaErrorNoDevice : error);
  }
  return machine;
}

const Machine& machine() {
  static const Machine the_machine = ask();
  return the_machine;
}

void check_device(Device device) {
  const int count = device_count();
  LATHE_CHECK(NoCudaError, count > 0, "device: no ", device, ": ", unavailable_reason());
  LATHE_CHECK(DeviceError, device.is_cuda() && device.index >= 0 && device.index < count,
              "device: no ", device, ": this machine has ", count, " GPUs");
}

constexpr int kUnchanged = -1;

}  // namespace

int device_count() noexcept { return machine().count; }
const std::string& unavailable_reason() noexcept { return machine().reason; }

// Asks the runtime each time, about 20 ns, because the program may change the current device too.
DeviceScope::DeviceScope(Device device, const char* call) : outer_call_(t_call) {
  check_device(device);
  LATHE_CUDA_CHECK(cudaGetDevice(&before_));
  if (before_ == device.index) {
    before_ = kUnchanged;
  } else {
    LATHE_CUDA_CHECK(cudaSetDevice(device.index));
  }
  if (call != nullptr) t_call = call;
}

DeviceScope::~DeviceScope() {
  if (before_ != kUnchanged) cudaSetDevice(before_);
  t_call = outer_call_;
}

const char* current_call() noexcept { return t_call; }

DeviceInfo device_info(int index) {
  const Device device(DeviceType::kCUDA,
                      static_cast<int8_t>(std::clamp(index, int{INT8_MIN}, int{INT8_MAX})));
  const DeviceScope scope(device);
  cudaDeviceProp properties;
  LATHE_CUDA_CHECK(cudaGetDeviceProperties(&properties, index));
  DeviceInfo info;
  info.name = properties.name;
  info.major = properties.major;
  info.minor = properties.minor;
  info.multiprocessors = properties.multiProcessorCount;
  LATHE_CUDA_CHECK(cudaMemGetInfo(&info.free_bytes, &info.total_bytes));
  nvml::complete(info, {.domain = properties.pciDomainID,
                        .bus = properties.pciBusID,
                        .device = properties.pciDeviceID});
  return info;
}

Versions versions() {
  int driver = 0, runtime = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  cudaGetLastError();
  return {.driver = version_text(driver),
          .runtime = version_text(runtime),
          .driver_package = driver == 0 ? "" : nvml::driver_version()};
}

}  // namespace lathe::cuda
