// Addresses and memory of a GPU as separate things, through the driver's virtual memory management:
// what the expandable segments of core/memory/block_pool are made of.
// ref: CUDA Driver API, "Virtual Memory Management".
#pragma once

#include <cuda.h>

#include <memory>

#include "lathe/core/memory/raw_memory.h"

namespace lathe::cuda {

/// The driver's functions (driver_function.h).
struct VirtualMemoryFunctions {
  decltype(&cuMemGetAllocationGranularity) granularity;
  decltype(&cuMemAddressReserve) reserve;
  decltype(&cuMemAddressFree) unreserve;
  decltype(&cuMemCreate) create;
  decltype(&cuMemRelease) release;
  decltype(&cuMemMap) map;
  decltype(&cuMemSetAccess) set_access;
  decltype(&cuMemUnmap) unmap;
};

class CudaVirtualMemory final : public VirtualMemory {
 public:
  /// For a GPU, which becomes the calling thread's; null if the driver or the GPU does not offer
  /// it. The GPU has a context afterwards: a program may allocate before it calls anything else.
  static std::unique_ptr<CudaVirtualMemory> make(int device);

  size_t granularity() const noexcept override { return granularity_; }
  void* reserve(size_t bytes) noexcept override;
  void unreserve(void* base, size_t bytes) noexcept override;
  PhysicalMemory create(size_t bytes) noexcept override;
  void destroy(PhysicalMemory memory) noexcept override;
  bool map(void* address, size_t bytes, PhysicalMemory memory) noexcept override;
  void unmap(void* address, size_t bytes) noexcept override;

 private:
  CudaVirtualMemory(const VirtualMemoryFunctions& driver, int device, size_t granularity)
      : driver_(driver), device_(device), granularity_(granularity) {}

  const VirtualMemoryFunctions driver_;
  const int device_;
  const size_t granularity_;
};

}  // namespace lathe::cuda
