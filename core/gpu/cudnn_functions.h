// The functions of cuDNN that Lathe calls: cudnn::functions().cudnnBackendExecute(…).
#pragma once

#include <cudnn.h>

#include "lathe/core/gpu/shared_library.h"

namespace lathe::cudnn {

struct Functions {
  cuda::SharedLibrary& library;
  LATHE_FUNCTION(cudnnGetVersion);
  LATHE_FUNCTION(cudnnGetErrorString);
  LATHE_FUNCTION(cudnnGetLastErrorString);
  LATHE_FUNCTION(cudnnCreate);
  LATHE_FUNCTION(cudnnSetStream);
  LATHE_FUNCTION(cudnnBackendCreateDescriptor);
  LATHE_FUNCTION(cudnnBackendDestroyDescriptor);
  LATHE_FUNCTION(cudnnBackendSetAttribute);
  LATHE_FUNCTION(cudnnBackendGetAttribute);
  LATHE_FUNCTION(cudnnBackendFinalize);
  LATHE_FUNCTION(cudnnBackendExecute);
};

/// The table, made by the first call, which opens the library.
/// throws: NoCudaError.
const Functions& functions();

}  // namespace lathe::cudnn
