// The functions of NCCL that Lathe calls: nccl::functions().ncclAllReduce(…). Only in builds that
// have its header (LATHE_NCCL); distributed/device_backend_nccl.cpp calls them.
#pragma once

#include <nccl.h>

#include "lathe/core/shared_library.h"

namespace lathe::nccl {

struct Functions {
  SharedLibrary& library;
  LATHE_FUNCTION(ncclGetUniqueId);
  LATHE_FUNCTION(ncclCommInitRankConfig);
  LATHE_FUNCTION(ncclCommFinalize);
  LATHE_FUNCTION(ncclCommDestroy);
  LATHE_FUNCTION(ncclCommAbort);
  LATHE_FUNCTION(ncclCommGetAsyncError);
  LATHE_FUNCTION(ncclGetErrorString);
  LATHE_FUNCTION(ncclGetLastError);
  LATHE_FUNCTION(ncclAllReduce);
  LATHE_FUNCTION(ncclBroadcast);
  LATHE_FUNCTION(ncclAllGather);
  LATHE_FUNCTION(ncclReduceScatter);
};

/// The table, made by the first call, which opens the library.
/// throws: NoCudaError.
const Functions& functions();

}  // namespace lathe::nccl
