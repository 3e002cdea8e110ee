// Where NCCL is looked for.
#include "lathe/core/gpu/nccl_functions.h"

#include "lathe/core/format.h"
#include "lathe/core/gpu/cuda_libraries.h"

namespace lathe {

const nccl::Functions& nccl::functions() {
  static auto& library = *new SharedLibrary({.name = "NCCL",
                                             .file = concat("libnccl.so.", NCCL_MAJOR),
                                             .folder = LATHE_LIBRARY_FOLDER,
                                             .built = {NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH},
                                             .advice = LATHE_LIBRARY_ADVICE},
                                            cuda::library_loader());
  static const Functions the_functions{library};
  return the_functions;
}

}  // namespace lathe
