// NVIDIA's libraries: what was built with and what is loaded. As core_other_cudnn and
// core_poor_cudnn, this runs where the loader finds another cuDNN before the real one.
#include <doctest/doctest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "lathe/core/cuda_backend.h"
#include "lathe/core/log.h"

using namespace lathe;

namespace {

/// Of the cuDNN that stands before the real one, "" if none does: tests/core/CMakeLists.txt.
std::string folder_of_cudnn(const std::string& kind) {
  const char* const value = std::getenv("LATHE_TEST_CUDNN");
  const std::string folder = value == nullptr ? "" : value;
  return folder.ends_with(kind + "_cudnn") ? folder : "";
}

}  // namespace

TEST_CASE("libraries: named where they are called, and only there") {
  cuda::load_libraries();
  std::vector<std::string> names;
  for (const cuda::Library& library : cuda::libraries()) {
    names.push_back(library.name);
    CAPTURE(library.problem);
    CHECK(!library.built.empty());
    CHECK(!library.loaded.empty());
    CHECK(library.path.find("/") == 0);
  }
  const std::vector<std::string> expected = {"cuDNN", "cuBLASLt", "cuRAND"};
  if (kHasCudaLibraries) CHECK(names == expected);
  if (!kHasCudaLibraries && kHasCuda) CHECK(names.size() == 2);
  if (!kHasCuda) CHECK(names.empty());
}

TEST_CASE("libraries: another minor version is a problem, and a warning given once") {
  cuda::load_libraries();
  std::vector<std::string> problems, warnings;
  for (const cuda::Library& library : cuda::libraries()) {
    if (!library.problem.empty()) problems.push_back(library.problem);
  }
  const LogHandler before =
      set_log_handler([&](LogLevel, std::string_view text) { warnings.emplace_back(text); });
  cuda::warn_of_other_libraries();
  cuda::warn_of_other_libraries();
  set_log_handler(before);
  CHECK(warnings == problems);

  if (const std::string folder = folder_of_cudnn("other"); !folder.empty()) {
    const cuda::Library cudnn = cuda::libraries().at(0);
    CHECK(cudnn.loaded == "9.5.1");
    CHECK(cudnn.problem.find("cuDNN 9.5.1 is loaded (" + folder + "/libcudnn.so.") == 0);
    CHECK(cudnn.problem.find("compiled with " + cudnn.built) != std::string::npos);
  }
}

TEST_CASE("libraries: a function that is lacking is named, with the file") {
  if (const std::string folder = folder_of_cudnn("poor"); !folder.empty()) {
    cuda::load_libraries();
    const cuda::Library cudnn = cuda::libraries().at(0);
    CHECK(cudnn.loaded == "9.5.1");
    CHECK(cudnn.problem.find("cuDNN 9.5.1 is loaded (" + folder + "/libcudnn.so.") == 0);
    CHECK(cudnn.problem.find("it has no function cudnnBackendExecute, which " + cudnn.built +
                             " has; install libcudnn9-cuda-") != std::string::npos);
  }
}
