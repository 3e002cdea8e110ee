// Where cuDNN is looked for.
#include "lathe/core/gpu/cudnn_functions.h"

#include "lathe/core/format.h"
#include "lathe/core/gpu/cuda_libraries.h"

namespace lathe {

// The front library. It opens the other libraries of cuDNN beside it when they are needed.
cuda::CudaLibrary cuda::cudnn_library() {
  static auto& library = *new SharedLibrary({.name = "cuDNN",
                                             .file = concat("libcudnn.so.", CUDNN_MAJOR),
                                             .folder = LATHE_LIBRARY_FOLDER,
                                             .built = {CUDNN_MAJOR, CUDNN_MINOR, CUDNN_PATCHLEVEL},
                                             .property = "cudnnGetProperty",
                                             .advice = LATHE_LIBRARY_ADVICE},
                                            library_loader());
  return {library, [] { cudnn::functions(); }};
}

const cudnn::Functions& cudnn::functions() {
  static const Functions the_functions{cuda::cudnn_library().library};
  return the_functions;
}

}  // namespace lathe
