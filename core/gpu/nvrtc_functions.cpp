// Where NVRTC is looked for. It is no part of cuda_libraries.h: without it ops run one by one.
#include "lathe/core/gpu/nvrtc_functions.h"

#include "lathe/core/format.h"
#include "lathe/core/gpu/cuda_libraries.h"

namespace lathe {

const nvrtc::Functions& nvrtc::functions() {
  static auto& library = *new SharedLibrary({.name = "NVRTC",
                                             .file = concat("libnvrtc.so.", LATHE_CUDA_MAJOR),
                                             .folder = LATHE_LIBRARY_FOLDER,
                                             .advice = LATHE_LIBRARY_ADVICE},
                                            cuda::library_loader());
  static const Functions the_functions{library};
  return the_functions;
}

}  // namespace lathe
