// NVIDIA's libraries for cuda.h: the versions that this build was compiled with, and what was
// loaded. Asking creates no context and needs no driver. Contract: cuda.h.
#include "lathe/core/gpu/cuda_libraries.h"

#include "lathe/core/cuda_backend.h"
#include "lathe/core/error.h"
#include "lathe/core/log.h"

namespace lathe::cuda {

namespace {

std::vector<CudaLibrary> all_libraries() {
  std::vector<CudaLibrary> all = {cudnn_library(), cublas_library()};
  if constexpr (kHasCudaLibraries) all.push_back(curand_library());
  return all;
}

bool is_of_the_build(const Library& library, LibrarySource::Version built) {
  return library.loaded.empty() ||
         library.loaded.starts_with(concat(built.major, ".", built.minor, "."));
}

Library describe(const SharedLibrary& library) {
  const LibrarySource& source = library.source();
  Library known = {.name = source.name,
                   .built = version_text(source.built),
                   .loaded = library.version(),
                   .path = library.path(),
                   .problem = library.problem()};
  if (known.problem.empty() && !is_of_the_build(known, source.built)) {
    known.problem = concat(known.name, " ", known.loaded, " is loaded (", known.path,
                           "), but this build was compiled with ", known.built,
                           ": rebuild, or let LD_LIBRARY_PATH name that one's directory first");
  }
  return known;
}

}  // namespace

LibraryLoader& library_loader() {
  if constexpr (kHasCudaLibraries) {
    return system_loader();
  } else {
    return emulated_loader();
  }
}

std::string load_problem(std::span<const CudaLibrary> needed) {
  for (const CudaLibrary& library : needed) {
    try {
      library.load();
    } catch (const NoCudaError& e) {
      return e.message();
    }
  }
  return "";
}

std::vector<Library> libraries() {
  std::vector<Library> known;
  for (const CudaLibrary& each : all_libraries()) known.push_back(describe(each.library));
  return known;
}

void load_libraries() {
  for (const CudaLibrary& each : all_libraries()) load_problem({&each, 1});
}

void warn_of_other_libraries() {
  for (const Library& library : libraries()) {
    if (!library.problem.empty()) warn_once(concat("library ", library.name), library.problem);
  }
}

}  // namespace lathe::cuda
