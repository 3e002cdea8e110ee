// Where cuBLASLt is looked for.
#include "lathe/core/gpu/cublas_functions.h"

#include "lathe/core/format.h"
#include "lathe/core/gpu/cuda_libraries.h"

namespace lathe {

cuda::CudaLibrary cuda::cublas_library() {
  static auto& library =
      *new SharedLibrary({.name = "cuBLASLt",
                          .file = concat("libcublasLt.so.", CUBLAS_VER_MAJOR),
                          .folder = LATHE_LIBRARY_FOLDER,
                          .built = {CUBLAS_VER_MAJOR, CUBLAS_VER_MINOR, CUBLAS_VER_PATCH},
                          .property = "cublasLtGetProperty",
                          .advice = LATHE_LIBRARY_ADVICE},
                         library_loader());
  return {library, [] { cublas::functions(); }};
}

const cublas::Functions& cublas::functions() {
  static const Functions the_functions{cuda::cublas_library().library};
  return the_functions;
}

}  // namespace lathe
