// Errors, versions and devices of the emulated CUDA runtime; see cuda_runtime_machine.h.
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <utility>

#include "cuda_runtime_machine.h"

using namespace lathe::emulation;

// Ten times the compute capability. LATHE_EMULATED_CAPABILITIES="80 90" names those of the first
// devices; the others are of 9.0.
static int capability(int device) {
  const char* text = std::getenv("LATHE_EMULATED_CAPABILITIES");
  std::istringstream list(text == nullptr ? "" : text);
  int value = 90;
  for (int i = 0; i <= device; ++i) {
    if (!(list >> value)) return 90;
  }
  return value;
}

cudaError_t cudaGetLastError() { return std::exchange(this_thread().last_error, cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return this_thread().last_error; }

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "cudaSuccess";
    case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorCudartUnloading: return "cudaErrorCudartUnloading";
    case cudaErrorInvalidConfiguration: return "cudaErrorInvalidConfiguration";
    case cudaErrorInsufficientDriver: return "cudaErrorInsufficientDriver";
    case cudaErrorNoDevice: return "cudaErrorNoDevice";
    case cudaErrorInvalidDevice: return "cudaErrorInvalidDevice";
    case cudaErrorInvalidResourceHandle: return "cudaErrorInvalidResourceHandle";
    case cudaErrorNotReady: return "cudaErrorNotReady";
    case cudaErrorLaunchFailure: return "cudaErrorLaunchFailure";
  }
  return "an unknown error";
}
const char* cudaGetErrorString(cudaError_t error) { return cudaGetErrorName(error); }

cudaError_t cudaDriverGetVersion(int* version) {
  const Call call;
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  const Call call;
  *version = 13000;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  const Call call;
  if (machine().memories.empty()) return result(cudaErrorNoDevice);
  *count = static_cast<int>(machine().memories.size());
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  const Call call;
  *device = this_thread().device;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  const Call call;
  if (device < 0 || device >= static_cast<int>(machine().memories.size())) {
    return result(cudaErrorInvalidDevice);
  }
  this_thread().device = device;
  make_context();
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  const Call call;
  if (device < 0 || device >= static_cast<int>(machine().memories.size())) {
    return result(cudaErrorInvalidDevice);
  }
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "emulated device %d", device);
  properties->totalGlobalMem = machine().memories[static_cast<size_t>(device)]->bytes();
  properties->major = capability(device) / 10;
  properties->minor = capability(device) % 10;
  properties->multiProcessorCount = kMultiprocessors;
  properties->pciBusID = device;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  const Call call;
  switch (attribute) {
    case cudaDevAttrClockRate: *value = 1'000'000; break;
    case cudaDevAttrMultiProcessorCount: *value = kMultiprocessors; break;
    case cudaDevAttrL2CacheSize: *value = 1 << 16; break;
    case cudaDevAttrComputeCapabilityMajor: *value = capability(device) / 10; break;
    case cudaDevAttrComputeCapabilityMinor: *value = capability(device) % 10; break;
  }
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  const Call call;
  if (machine().failed) return result(cudaErrorLaunchFailure);
  if (machine().captured != nullptr) return result(kStreamCaptureUnsupported);
  if (machine().memories.empty()) return result(cudaErrorNoDevice);
  drain_all();
  return waited();
}
