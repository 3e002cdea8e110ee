// cuDNN: its version, its errors and each thread's handle. The graph API is in cudnn_graph.h. This
// header and the other core/gpu/cudnn_*.h are for files that are compiled only in builds with
// cuDNN.
#pragma once

#include <string>
#include <string_view>

#include "lathe/core/device.h"
#include "lathe/core/gpu/cudnn_functions.h"

namespace lathe::cudnn {

/// The version of the library that was loaded: "9.19.0".
std::string version();

/// Throws unless `status` is success, with cuDNN's name for it and cuDNN's own reason:
///   cudnn: finalize an execution plan: CUDNN_STATUS_NOT_SUPPORTED (…)
/// It also clears the CUDA runtime's last error, so that this is not reported a second time.
/// throws: OutOfMemoryError if cuDNN found no memory, else CudaError.
void check(cudnnStatus_t status, std::string_view doing);

/// This thread's handle on `device`, made by the first call. What it executes is queued on the
/// stream that is current now. The handle stays valid until the thread ends, and outlives
/// thread-local objects that were made after the first call.
/// throws: CudaError; NoCudaError, DeviceError if there is no such device.
cudnnHandle_t handle(Device device);

}  // namespace lathe::cudnn
