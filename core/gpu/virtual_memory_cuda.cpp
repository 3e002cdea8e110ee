// The driver's calls for mapping memory of a GPU, and how they are found.
#include "lathe/core/gpu/virtual_memory_cuda.h"

#include "lathe/core/cuda_backend.h"
#include "lathe/core/gpu/driver_function.h"
#include "lathe/core/gpu/launch.h"
#include "lathe/core/gpu/relaxed_capture.h"

namespace lathe::cuda {

namespace {

/// A failed call leaves its error behind as the thread's last error.
bool works(cudaError_t error) {
  if (error != cudaSuccess) cudaGetLastError();
  return error == cudaSuccess;
}

CUmemLocation location(int device) {
  CUmemLocation place{};
  place.type = CU_MEM_LOCATION_TYPE_DEVICE;
  place.id = device;
  return place;
}

CUmemAllocationProp properties(int device) {
  CUmemAllocationProp wanted{};
  wanted.type = CU_MEM_ALLOCATION_TYPE_PINNED;  // it stays where it is: on the GPU
  wanted.location = location(device);
  return wanted;
}

CUdeviceptr number(void* address) { return reinterpret_cast<CUdeviceptr>(address); }

}  // namespace

std::unique_ptr<CudaVirtualMemory> CudaVirtualMemory::make(int device) {
  decltype(&cuDeviceGetAttribute) get_attribute = nullptr;
  VirtualMemoryFunctions driver{};
  const bool complete = find_driver_function("cuDeviceGetAttribute", get_attribute) &&
                        find_driver_function("cuMemGetAllocationGranularity", driver.granularity) &&
                        find_driver_function("cuMemAddressReserve", driver.reserve) &&
                        find_driver_function("cuMemAddressFree", driver.unreserve) &&
                        find_driver_function("cuMemCreate", driver.create) &&
                        find_driver_function("cuMemRelease", driver.release) &&
                        find_driver_function("cuMemMap", driver.map) &&
                        find_driver_function("cuMemSetAccess", driver.set_access) &&
                        find_driver_function("cuMemUnmap", driver.unmap);
  int supported = 0;
  if (!complete ||
      get_attribute(&supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device) !=
          CUDA_SUCCESS ||
      supported == 0) {
    return nullptr;
  }
  if (!works(cudaSetDevice(device))) return nullptr;  // makes the context, if nothing has so far
  const CUmemAllocationProp wanted = properties(device);
  size_t granule = 0;
  if (driver.granularity(&granule, &wanted, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED) != CUDA_SUCCESS ||
      granule == 0) {
    return nullptr;
  }
  return std::unique_ptr<CudaVirtualMemory>(new CudaVirtualMemory(driver, device, granule));
}

void* CudaVirtualMemory::reserve(size_t bytes) noexcept {
  const RelaxedCapture relaxed;
  CUdeviceptr base = 0;
  constexpr size_t kAnyAlignment = 0;
  constexpr CUdeviceptr kAnywhere = 0;
  if (driver_.reserve(&base, bytes, kAnyAlignment, kAnywhere, 0) != CUDA_SUCCESS) return nullptr;
  return reinterpret_cast<void*>(base);
}

void CudaVirtualMemory::unreserve(void* base, size_t bytes) noexcept {
  const RelaxedCapture relaxed;
  driver_.unreserve(number(base), bytes);
}

PhysicalMemory CudaVirtualMemory::create(size_t bytes) noexcept {
  const RelaxedCapture relaxed;
  const CUmemAllocationProp wanted = properties(device_);
  CUmemGenericAllocationHandle memory = 0;
  if (driver_.create(&memory, bytes, &wanted, 0) != CUDA_SUCCESS) return 0;
  count_driver_allocation();
  return memory;
}

void CudaVirtualMemory::destroy(PhysicalMemory memory) noexcept {
  const RelaxedCapture relaxed;
  driver_.release(memory);
}

bool CudaVirtualMemory::map(void* address, size_t bytes, PhysicalMemory memory) noexcept {
  const RelaxedCapture relaxed;
  if (driver_.map(number(address), bytes, 0, memory, 0) != CUDA_SUCCESS) return false;
  CUmemAccessDesc access{};
  access.location = location(device_);
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  if (driver_.set_access(number(address), bytes, &access, 1) == CUDA_SUCCESS) return true;
  driver_.unmap(number(address), bytes);
  return false;
}

void CudaVirtualMemory::unmap(void* address, size_t bytes) noexcept {
  const RelaxedCapture relaxed;
  // One mapping at a time: the driver unmaps no part of one, and need not accept several at once.
  for (size_t done = 0; done < bytes; done += granularity_) {
    driver_.unmap(number(static_cast<char*>(address) + done), granularity_);
  }
}

}  // namespace lathe::cuda
