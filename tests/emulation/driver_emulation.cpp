// The emulated driver's functions; see driver/cuda.h.
#include <cstring>

#include "device_ranges.h"
#include "driver/cuda.h"

using namespace lathe::emulation;

namespace {

char* pointer(CUdeviceptr address) { return reinterpret_cast<char*>(address); }

CUresult invalid_unless(bool done) { return done ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE; }

bool names_a_device(const CUmemLocation& location) {
  int devices = 0;
  return cudaGetDeviceCount(&devices) == cudaSuccess &&
         location.type == CU_MEM_LOCATION_TYPE_DEVICE && location.id >= 0 && location.id < devices;
}

}  // namespace

lathe::emulation::FindDriverFunction& lathe::emulation::more_driver_functions() {
  static FindDriverFunction the_functions = [](const char*) -> void* { return nullptr; };
  return the_functions;
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  if (attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
    return invalid_unless(
        cudaDeviceGetAttribute(value, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess);
  if (attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
    return invalid_unless(
        cudaDeviceGetAttribute(value, cudaDevAttrComputeCapabilityMinor, device) == cudaSuccess);
  *value = 1;
  return CUDA_SUCCESS;
}

CUresult cuMemGetAllocationGranularity(size_t* bytes, const CUmemAllocationProp* wanted,
                                       CUmemAllocationGranularity_flags) {
  *bytes = DeviceRanges::kGranule;
  return invalid_unless(names_a_device(wanted->location));
}

CUresult cuMemAddressReserve(CUdeviceptr* base, size_t bytes, size_t, CUdeviceptr,
                             unsigned long long) {
  const auto lock = enter_machine();
  char* const reserved = device_ranges().reserve(bytes);
  *base = reinterpret_cast<CUdeviceptr>(reserved);
  return reserved != nullptr ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemAddressFree(CUdeviceptr base, size_t bytes) {
  const auto lock = enter_machine();
  return invalid_unless(device_ranges().unreserve(pointer(base), bytes));
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* memory, size_t bytes,
                     const CUmemAllocationProp* wanted, unsigned long long) {
  const auto lock = enter_machine();
  if (wanted->type != CU_MEM_ALLOCATION_TYPE_PINNED || !names_a_device(wanted->location)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!has_context(wanted->location.id)) return CUDA_ERROR_INVALID_CONTEXT;
  if (runtime_probe().malloc_fault.hit() || bytes > free_bytes_of(wanted->location.id)) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *memory = device_ranges().create(wanted->location.id, bytes);
  return invalid_unless(*memory != 0);
}

CUresult cuMemRelease(CUmemGenericAllocationHandle memory) {
  const auto lock = enter_machine();
  return invalid_unless(device_ranges().release(memory));
}

CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
                  CUmemGenericAllocationHandle memory, unsigned long long) {
  const auto lock = enter_machine();
  return invalid_unless(offset == 0 && device_ranges().map(pointer(address), bytes, memory));
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc* access,
                        size_t count) {
  const auto lock = enter_machine();
  return invalid_unless(count == 1 && access->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE &&
                        names_a_device(access->location) &&
                        device_ranges().allow(pointer(address), bytes));
}

CUresult cuMemUnmap(CUdeviceptr address, size_t bytes) {
  const auto lock = enter_machine();
  return invalid_unless(device_ranges().unmap(pointer(address), bytes));
}

cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* answer) {
  static const struct {
    const char* name;
    void* function;
  } kFunctions[] = {
#define LATHE_DRIVER_FUNCTION(f) {#f, reinterpret_cast<void*>(&f)}  // the name twice
      LATHE_DRIVER_FUNCTION(cuDeviceGetAttribute),
      LATHE_DRIVER_FUNCTION(cuMemGetAllocationGranularity),
      LATHE_DRIVER_FUNCTION(cuMemAddressReserve),
      LATHE_DRIVER_FUNCTION(cuMemAddressFree),
      LATHE_DRIVER_FUNCTION(cuMemCreate),
      LATHE_DRIVER_FUNCTION(cuMemRelease),
      LATHE_DRIVER_FUNCTION(cuMemMap),
      LATHE_DRIVER_FUNCTION(cuMemSetAccess),
      LATHE_DRIVER_FUNCTION(cuMemUnmap),
#undef LATHE_DRIVER_FUNCTION
  };
  *function = more_driver_functions()(symbol);
  for (const auto& known : kFunctions) {
    if (*function == nullptr && std::strcmp(known.name, symbol) == 0) *function = known.function;
  }
  *answer = *function != nullptr ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}
