// Where CUPTI is looked for. It is no part of cuda_libraries.h: training does without it.
#include "lathe/core/gpu/cupti_functions.h"

#include "lathe/core/format.h"
#include "lathe/core/gpu/cuda_libraries.h"

namespace lathe {

const cupti::Functions& cupti::functions() {
  static auto& library = *new SharedLibrary({.name = "CUPTI",
                                             .file = concat("libcupti.so.", LATHE_CUDA_MAJOR),
                                             .folder = LATHE_LIBRARY_FOLDER,
                                             .advice = LATHE_LIBRARY_ADVICE},
                                            cuda::library_loader());
  static const Functions the_functions{library};
  return the_functions;
}

}  // namespace lathe
