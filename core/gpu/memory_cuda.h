// The pool behind a GPU's memory, for what shapes how it hands memory out.
#pragma once

#include "lathe/core/device.h"

namespace lathe {

class BlockPool;

namespace cuda {

/// The pool of device_allocator(device). It lives as long as the process.
/// throws: NoCudaError, DeviceError.
BlockPool& block_pool(Device device);

/// True if the segments of the device's pool grow in place: their memory is mapped by cuMemMap, and
/// does not come from cudaMalloc.
/// throws: as block_pool.
bool has_expandable_segments(Device device);

}  // namespace cuda
}  // namespace lathe
