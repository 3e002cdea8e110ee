// The functions of cuBLASLt that Lathe calls: cublas::functions().cublasLtMatmul(…).
#pragma once

#include <cublasLt.h>

#include "lathe/core/shared_library.h"

namespace lathe::cublas {

struct Functions {
  SharedLibrary& library;
  LATHE_FUNCTION(cublasLtGetStatusString);
  LATHE_FUNCTION(cublasLtCreate);
  LATHE_FUNCTION(cublasLtMatmulDescCreate);
  LATHE_FUNCTION(cublasLtMatmulDescDestroy);
  LATHE_FUNCTION(cublasLtMatmulDescSetAttribute);
  LATHE_FUNCTION(cublasLtMatrixLayoutCreate);
  LATHE_FUNCTION(cublasLtMatrixLayoutDestroy);
  LATHE_FUNCTION(cublasLtMatrixLayoutSetAttribute);
  LATHE_FUNCTION(cublasLtMatmulPreferenceCreate);
  LATHE_FUNCTION(cublasLtMatmulPreferenceDestroy);
  LATHE_FUNCTION(cublasLtMatmulPreferenceSetAttribute);
  LATHE_FUNCTION(cublasLtMatmulAlgoGetHeuristic);
  LATHE_FUNCTION(cublasLtMatmul);
};

/// The table, made by the first call, which opens the library.
/// throws: NoCudaError.
const Functions& functions();

}  // namespace lathe::cublas
