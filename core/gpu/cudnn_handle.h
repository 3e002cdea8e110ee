// cuDNN: each thread's handle. The graph API is in cudnn_graph.h. This header and the other
// core/gpu/cudnn_*.h are for files that are compiled only in builds with cuDNN.
#pragma once

#include "lathe/core/device.h"
#include "lathe/core/gpu/cudnn_check.h"

namespace lathe::cudnn {

/// This thread's handle on `device`, made by the first call. What it executes is queued on the
/// stream that is current now. The handle stays valid until the thread ends, and outlives
/// thread-local objects that were made after the first call.
/// throws: CudaError; NoCudaError, DeviceError if there is no such device.
cudnnHandle_t handle(Device device);

}  // namespace lathe::cudnn
