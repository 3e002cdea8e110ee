// Errors, versions and devices of the emulated CUDA runtime; see cuda_runtime_machine.h.
#include <cstdio>
#include <utility>

#include "cuda_runtime_machine.h"

using namespace lathe::emulation;

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
  if (machine().arenas.empty()) return result(cudaErrorNoDevice);
  *count = static_cast<int>(machine().arenas.size());
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  const Call call;
  *device = this_thread().device;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  const Call call;
  if (device < 0 || device >= static_cast<int>(machine().arenas.size())) {
    return result(cudaErrorInvalidDevice);
  }
  this_thread().device = device;
  make_context();
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  const Call call;
  if (device < 0 || device >= static_cast<int>(machine().arenas.size())) {
    return result(cudaErrorInvalidDevice);
  }
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "emulated device %d", device);
  properties->totalGlobalMem = machine().arenas[static_cast<size_t>(device)]->bytes();
  properties->major = 9;
  properties->multiProcessorCount = kMultiprocessors;
  properties->pciBusID = device;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  const Call call;
  switch (attribute) {
    case cudaDevAttrClockRate: *value = 1'000'000; break;
    case cudaDevAttrMultiProcessorCount: *value = kMultiprocessors; break;
    case cudaDevAttrL2CacheSize: *value = 1 << 16; break;
    case cudaDevAttrComputeCapabilityMajor: *value = 9; break;
    case cudaDevAttrComputeCapabilityMinor: *value = 0; break;
  }
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  const Call call;
  if (machine().failed) return result(cudaErrorLaunchFailure);
  if (machine().captured != nullptr) return result(kStreamCaptureUnsupported);
  if (machine().arenas.empty()) return result(cudaErrorNoDevice);
  drain_all();
  return waited();
}
