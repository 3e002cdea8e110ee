// The functions of NVRTC that Lathe calls: nvrtc::functions().nvrtcCompileProgram(…).
#pragma once

#include <nvrtc.h>

#include "lathe/core/shared_library.h"

namespace lathe::nvrtc {

struct Functions {
  SharedLibrary& library;
  LATHE_FUNCTION(nvrtcCreateProgram);
  LATHE_FUNCTION(nvrtcDestroyProgram);
  LATHE_FUNCTION(nvrtcCompileProgram);
  LATHE_FUNCTION(nvrtcGetCUBIN);
  LATHE_FUNCTION(nvrtcGetCUBINSize);
  LATHE_FUNCTION(nvrtcGetPTX);
  LATHE_FUNCTION(nvrtcGetPTXSize);
  LATHE_FUNCTION(nvrtcGetProgramLog);
  LATHE_FUNCTION(nvrtcGetProgramLogSize);
  LATHE_FUNCTION(nvrtcGetErrorString);
  LATHE_FUNCTION(nvrtcGetNumSupportedArchs);
  LATHE_FUNCTION(nvrtcGetSupportedArchs);
};

/// The table, made by the first call, which opens the library.
/// throws: NoCudaError.
const Functions& functions();

}  // namespace lathe::nvrtc
