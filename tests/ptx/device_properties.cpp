// cudaGetDeviceProperties of the emulated machine for callers of the real header, whose structure
// is larger than that of tests/emulation.
#include <cuda_runtime.h>

#include <cstring>

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  size_t free_bytes = 0;
  *properties = {};
  std::strncpy(properties->name, "PTX interpreter", sizeof properties->name - 1);
  for (const cudaError_t status :
       {cudaDeviceGetAttribute(&properties->major, cudaDevAttrComputeCapabilityMajor, device),
        cudaDeviceGetAttribute(&properties->minor, cudaDevAttrComputeCapabilityMinor, device),
        cudaDeviceGetAttribute(&properties->multiProcessorCount, cudaDevAttrMultiProcessorCount,
                               device),
        cudaMemGetInfo(&free_bytes, &properties->totalGlobalMem)}) {
    if (status != cudaSuccess) return status;
  }
  return cudaSuccess;
}
