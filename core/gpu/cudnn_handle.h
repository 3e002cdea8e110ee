// cuDNN: its version, its errors and each thread's handle. The graph API: cudnn_graph.h. This
// header and the other core/cudnn_*.h are for files that are compiled only where cuDNN is.
#pragma once

#include <string>
#include <string_view>

#include "lathe/core/device.h"
#include "lathe/core/gpu/cudnn_functions.h"

namespace lathe::cudnn {

/// "9.19.0", of the library that was loaded.
std::string version();

/// Throws unless `status` is success, with cuDNN's name for it and its own account of the reason:
///   cudnn: finalize an execution plan: CUDNN_STATUS_NOT_SUPPORTED (…)
/// The CUDA runtime's last error is then cleared, so that it is not reported a second time.
/// throws: OutOfMemoryError where cuDNN found no memory, else CudaError.
void check(cudnnStatus_t status, std::string_view doing);

/// This thread's handle on `device`, made by the first call; what it executes is queued on the
/// stream that is current now. It stays valid until the thread ends: until after the end of
/// thread-locals that were made after the first call.
/// throws: CudaError; NoCudaError, DeviceError if there is no such device.
cudnnHandle_t handle(Device device);

}  // namespace lathe::cudnn
