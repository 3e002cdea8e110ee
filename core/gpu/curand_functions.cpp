// Where cuRAND is looked for.
#include "lathe/core/gpu/curand_functions.h"

#include "lathe/core/format.h"
#include "lathe/core/gpu/cuda_libraries.h"

namespace lathe {

cuda::CudaLibrary cuda::curand_library() {
  static auto& library =
      *new SharedLibrary({.name = "cuRAND",
                          .file = concat("libcurand.so.", CURAND_VER_MAJOR),
                          .folder = LATHE_LIBRARY_FOLDER,
                          .built = {CURAND_VER_MAJOR, CURAND_VER_MINOR, CURAND_VER_PATCH},
                          .property = "curandGetProperty",
                          .advice = LATHE_LIBRARY_ADVICE},
                         library_loader());
  return {library, [] { curand::functions(); }};
}

const curand::Functions& curand::functions() {
  static const Functions the_functions{cuda::curand_library().library};
  return the_functions;
}

}  // namespace lathe
