// The functions of cuDNN that Lathe calls: cudnn::functions().cudnnBackendExecute(…).
#pragma once

#include <cudnn.h>

#include "lathe/core/shared_library.h"

// What a header older than 9.8 does not name. The library that is loaded may be newer.
#if CUDNN_VERSION < 90800
inline constexpr auto CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR = cudnnBackendDescriptorType_t(38);
inline constexpr auto CUDNN_ATTR_ENGINEHEUR_DEVICEPROP = cudnnBackendAttributeName_t(204);
inline constexpr auto CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP = cudnnBackendAttributeName_t(407);
inline constexpr auto CUDNN_ATTR_ENGINE_DEVICEPROP = cudnnBackendAttributeName_t(1307);
inline constexpr auto CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION = cudnnBackendAttributeName_t(2702);
#endif

namespace lathe::cudnn {

struct Functions {
  SharedLibrary& library;
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
