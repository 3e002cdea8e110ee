// The functions of cuRAND that Lathe calls: curand::functions().curandGenerateUniform(…).
#pragma once

#include <curand.h>

#include "lathe/core/shared_library.h"

namespace lathe::curand {

struct Functions {
  SharedLibrary& library;
  LATHE_FUNCTION(curandCreateGenerator);
  LATHE_FUNCTION(curandDestroyGenerator);
  LATHE_FUNCTION(curandSetStream);
  LATHE_FUNCTION(curandSetPseudoRandomGeneratorSeed);
  LATHE_FUNCTION(curandSetGeneratorOffset);
  LATHE_FUNCTION(curandGenerateUniform);
  LATHE_FUNCTION(curandGenerateUniformDouble);
  LATHE_FUNCTION(curandGenerateNormal);
  LATHE_FUNCTION(curandGenerateNormalDouble);
};

/// The table, made by the first call, which opens the library.
/// throws: NoCudaError.
const Functions& functions();

}  // namespace lathe::curand
