// NVIDIA's shared libraries: the versions this build was compiled with, and those that the loader
// found; see cuda.h. Asking creates no context and needs no driver.
#include <cublasLt.h>
#include <cudnn.h>
#include <curand.h>
#include <dlfcn.h>

#include "lathe/core/cuda_backend.h"
#include "lathe/core/format.h"
#include "lathe/core/log.h"

namespace lathe::cuda {

namespace {

struct Number {
  int major = 0, minor = 0, patch = 0;
};

std::string text_of(Number n) { return concat(n.major, ".", n.minor, ".", n.patch); }

/// The file that holds this function, or "".
template <class Function>
std::string file_of(Function* function) {
  Dl_info info;
  const bool found = dladdr(reinterpret_cast<void*>(function), &info) != 0;
  return found && info.dli_fname != nullptr ? info.dli_fname : "";
}

// All of them answer the same question: xGetProperty(libraryPropertyType, int*).
template <class Function>
Library library(const char* name, Number built, Function* get_property) {
  Number loaded;
  get_property(MAJOR_VERSION, &loaded.major);
  get_property(MINOR_VERSION, &loaded.minor);
  get_property(PATCH_LEVEL, &loaded.patch);
  Library result = {.name = name,
                    .built = text_of(built),
                    .loaded = text_of(loaded),
                    .path = file_of(get_property),
                    .problem = {}};
  if (loaded.major != built.major || loaded.minor != built.minor) {
    result.problem = concat(name, " ", result.loaded, " is loaded (", result.path,
                            "), but this build was compiled with ", result.built,
                            ": rebuild, or let LD_LIBRARY_PATH name that one's directory first");
  }
  return result;
}

}  // namespace

std::vector<Library> libraries() {
  return {
      library("cuDNN", {CUDNN_MAJOR, CUDNN_MINOR, CUDNN_PATCHLEVEL}, cudnnGetProperty),
      library("cuBLASLt", {CUBLAS_VER_MAJOR, CUBLAS_VER_MINOR, CUBLAS_VER_PATCH},
              cublasLtGetProperty),
      library("cuRAND", {CURAND_VER_MAJOR, CURAND_VER_MINOR, CURAND_VER_PATCH}, curandGetProperty)};
}

void warn_of_other_libraries() {
  for (const Library& library : libraries()) {
    if (!library.problem.empty()) warn_once(concat("library ", library.name), library.problem);
  }
}

}  // namespace lathe::cuda
