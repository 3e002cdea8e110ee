// Which GPUs there are, and what is known about them. The driver is asked once, by the first call
// that needs to know. GPUs count only if the libraries that compute on them can be loaded, and if
// this build has kernels for at least one of them. Contract: cuda_backend.h.
#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "lathe/core/cuda_backend.h"
#include "lathe/core/device_scope.h"
#include "lathe/core/error.h"
#include "lathe/core/gpu/architectures.h"
#include "lathe/core/gpu/cuda_libraries.h"
#include "lathe/core/gpu/launch.h"
#include "lathe/core/gpu/nvml.h"

namespace lathe::cuda {

namespace {

thread_local const char* t_call = nullptr;

struct Machine {
  int count = 0;
  std::string reason;                 // why count is 0
  std::vector<std::string> problems;  // by index: why this build cannot compute there, or empty
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

// Why this build's kernels do not run on GPU `index`, or "". Creates no context, which would take
// memory on every GPU. A GPU that does not answer is left to the call that computes there.
std::string kernel_problem(int index) {
  ComputeCapability gpu;
  if (cudaDeviceGetAttribute(&gpu.major, cudaDevAttrComputeCapabilityMajor, index) != cudaSuccess ||
      cudaDeviceGetAttribute(&gpu.minor, cudaDevAttrComputeCapabilityMinor, index) != cudaSuccess) {
    cudaGetLastError();
    return {};
  }
  if (kernels_run_on(LATHE_ARCHITECTURES, gpu)) return {};
  return concat("cuda:", index, " has compute capability ", gpu.major, ".", gpu.minor,
                ", but this build's kernels are compiled for ", LATHE_ARCHITECTURES,
                "; configure with -DCMAKE_CUDA_ARCHITECTURES=", gpu.major, gpu.minor);
}

// If no GPU is left, the first one's problem is the machine's.
void check_kernels(Machine& machine) {
  for (int i = 0; i < machine.count; ++i) machine.problems.push_back(kernel_problem(i));
  if (std::ranges::find(machine.problems, "") != machine.problems.end()) return;
  machine.reason = machine.problems.front();
  machine.count = 0;
}

Machine ask() {
  Machine machine;
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess && count > 0) {
    machine.reason = load_problem(std::array{cudnn_library(), cublas_library()});
    if (machine.reason.empty()) {
      machine.count = std::min(count, kMaxDevices);
      check_kernels(machine);
    }
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

void check_exists(Device device) {
  const int count = device_count();
  LATHE_CHECK(NoCudaError, count > 0, "device: no ", device, ": ", unavailable_reason());
  LATHE_CHECK(DeviceError, device.is_cuda() && device.index >= 0 && device.index < count,
              "device: no ", device, ": this machine has ", count, " GPUs");
}

const std::string& problem_of(Device device) {
  return machine().problems[static_cast<size_t>(device.index)];
}

void check_usable(Device device) {
  check_exists(device);
  const std::string& problem = problem_of(device);
  LATHE_CHECK(DeviceError, problem.empty(), "device: ", problem);
}

constexpr int kUnchanged = -1;

}  // namespace

int device_count() noexcept { return machine().count; }
const std::string& unavailable_reason() noexcept { return machine().reason; }

Device first_usable_device() {
  check_exists(Device(DeviceType::kCUDA));
  const auto usable = std::ranges::find(machine().problems, "");
  return {DeviceType::kCUDA, static_cast<int8_t>(usable - machine().problems.begin())};
}

// Asks the runtime each time, about 20 ns, because the program may change the current device too.
DeviceScope::DeviceScope(Device device, const char* call) : outer_call_(t_call) {
  check_usable(device);
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
  check_exists(device);
  cudaDeviceProp properties;
  LATHE_CUDA_CHECK(cudaGetDeviceProperties(&properties, index));
  DeviceInfo info;
  info.name = properties.name;
  info.major = properties.major;
  info.minor = properties.minor;
  info.multiprocessors = properties.multiProcessorCount;
  info.total_bytes = properties.totalGlobalMem;
  info.problem = problem_of(device);
  if (info.problem.empty()) {
    const DeviceScope scope(device);
    LATHE_CUDA_CHECK(cudaMemGetInfo(&info.free_bytes, &info.total_bytes));
  }
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
