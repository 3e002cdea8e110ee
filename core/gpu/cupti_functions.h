// The functions of CUPTI that Lathe calls: cupti::functions().cuptiActivityEnable(…).
#pragma once

#include <cupti.h>

#include "lathe/core/shared_library.h"

namespace lathe::cupti {

struct Functions {
  SharedLibrary& library;
  LATHE_FUNCTION(cuptiActivityRegisterCallbacks);
  LATHE_FUNCTION(cuptiActivityRegisterTimestampCallback);
  LATHE_FUNCTION(cuptiActivityEnable);
  LATHE_FUNCTION(cuptiActivityDisable);
  LATHE_FUNCTION(cuptiActivityFlushAll);
  LATHE_FUNCTION(cuptiActivityGetNextRecord);
  LATHE_FUNCTION(cuptiActivityPushExternalCorrelationId);
  LATHE_FUNCTION(cuptiActivityPopExternalCorrelationId);
};

/// The table, made by the first call, which opens the library.
/// throws: NoCudaError.
const Functions& functions();

}  // namespace lathe::cupti
