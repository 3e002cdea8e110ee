// cuDNN's version, and its errors as exceptions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "lathe/core/gpu/cudnn_functions.h"

namespace lathe::cudnn {

/// "9.19.0" for 91900.
std::string version_text(size_t number);

/// The version of the library that was loaded: "9.19.0".
std::string version();

/// Throws unless `status` is success, with cuDNN's name for it and cuDNN's own reason:
///   cudnn: finalize an execution plan: CUDNN_STATUS_NOT_SUPPORTED (…)
/// It also clears the CUDA runtime's last error, so that this is not reported a second time.
/// throws: OutOfMemoryError if cuDNN found no memory, else CudaError.
void check(cudnnStatus_t status, std::string_view doing);

}  // namespace lathe::cudnn
