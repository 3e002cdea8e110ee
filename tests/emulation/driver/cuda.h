// The part of the CUDA driver's interface that Lathe calls, over the emulated runtime: virtual
// memory management. It has no modules: those are of programs that bring an interpreter along
// (more_driver_functions). What a GPU refuses is refused: sizes and addresses that are no multiples of
// the granularity, mapping over a mapping, taking back a part of one; and memory of a device that
// has no context, as it has none before the runtime needs one.
#pragma once

#include <cstddef>

#include "lathe/tests/emulation/cuda_runtime_emulation.h"

enum CUresult {
  CUDA_SUCCESS = 0,
  CUDA_ERROR_INVALID_VALUE = 1,
  CUDA_ERROR_OUT_OF_MEMORY = 2,
  CUDA_ERROR_INVALID_CONTEXT = 201,
};

enum CUdevice_attribute {
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
  CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED = 102,
};
enum CUmemAllocationType { CU_MEM_ALLOCATION_TYPE_INVALID, CU_MEM_ALLOCATION_TYPE_PINNED };
enum CUmemLocationType { CU_MEM_LOCATION_TYPE_INVALID, CU_MEM_LOCATION_TYPE_DEVICE };
enum CUmemAccess_flags { CU_MEM_ACCESS_FLAGS_PROT_NONE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 3 };
enum CUmemAllocationGranularity_flags {
  CU_MEM_ALLOC_GRANULARITY_MINIMUM,
  CU_MEM_ALLOC_GRANULARITY_RECOMMENDED,
};

using CUdevice = int;
using CUmodule = struct CUmod_st*;
using CUfunction = struct CUfunc_st*;
using CUstream = cudaStream_t;
using CUdeviceptr = unsigned long long;
using CUmemGenericAllocationHandle = unsigned long long;

struct CUmemLocation {
  CUmemLocationType type;
  int id;
};
struct CUmemAllocationProp {
  CUmemAllocationType type;
  CUmemLocation location;
};
struct CUmemAccessDesc {
  CUmemLocation location;
  CUmemAccess_flags flags;
};

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device);
CUresult cuMemGetAllocationGranularity(size_t* bytes, const CUmemAllocationProp* wanted,
                                       CUmemAllocationGranularity_flags option);
CUresult cuMemAddressReserve(CUdeviceptr* base, size_t bytes, size_t alignment, CUdeviceptr hint,
                             unsigned long long flags);
CUresult cuMemAddressFree(CUdeviceptr base, size_t bytes);
CUresult cuMemCreate(CUmemGenericAllocationHandle* memory, size_t bytes,
                     const CUmemAllocationProp* wanted, unsigned long long flags);
CUresult cuMemRelease(CUmemGenericAllocationHandle memory);
CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
                  CUmemGenericAllocationHandle memory, unsigned long long flags);
CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc* access,
                        size_t count);
CUresult cuMemUnmap(CUdeviceptr address, size_t bytes);

CUresult cuGetErrorName(CUresult error, const char** name);
CUresult cuModuleLoadData(CUmodule* module, const void* image);
CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name);
CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                        CUstream stream, void** parameters, void** extra);

namespace lathe::emulation {

/// Finds functions that the driver has beside, or instead of, those of driver_emulation.cpp; null
/// for others. Set it before the first call that needs one.
using FindDriverFunction = void* (*)(const char* name);
FindDriverFunction& more_driver_functions();

}  // namespace lathe::emulation
