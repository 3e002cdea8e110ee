// The interface behind every tensor's memory. Implementations: core/memory/host_allocator for the
// CPU, core/gpu/memory_cuda.cpp for pinned and device memory.
#pragma once

#include <cstddef>

#include "lathe/core/config.h"
#include "lathe/core/device.h"

namespace lathe {

/// Thread-safe source of memory blocks.
class LATHE_API Allocator {
 public:
  virtual ~Allocator() = default;

  /// A block of at least `bytes` > 0 bytes, aligned to 64 bytes or more, contents undefined.
  /// throws: OutOfMemoryError; the allocator is then unchanged.
  virtual void* allocate(size_t bytes) = 0;

  /// Gives a block back. `bytes` is the number that allocate() was called with.
  virtual void deallocate(void* block, size_t bytes) noexcept = 0;
};

/// The allocator that new tensors on `device` use.
/// throws: NoCudaError.
LATHE_API Allocator& allocator_for(Device device);

}  // namespace lathe
