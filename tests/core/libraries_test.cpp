// NVIDIA's libraries: what was built with and what is loaded. As core_other_cudnn, this runs with a
// cuDNN of another version before the real one.
#include <doctest/doctest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "lathe/core/cuda_backend.h"
#include "lathe/core/log.h"

using namespace lathe;

TEST_CASE("libraries: named where they are linked, and only there") {
  std::vector<std::string> names;
  for (const cuda::Library& library : cuda::libraries()) {
    names.push_back(library.name);
    CHECK(!library.built.empty());
    CHECK(!library.loaded.empty());
    CHECK(library.path.find("/") == 0);
  }
  const std::vector<std::string> expected = {"cuDNN", "cuBLASLt", "cuRAND"};
  CHECK(names == (kHasCudaLibraries ? expected : std::vector<std::string>{}));
}

TEST_CASE("libraries: another minor version is a problem, and a warning given once") {
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

  const char* const preloaded = std::getenv("LD_PRELOAD");
  if (kHasCudaLibraries && preloaded != nullptr) {
    REQUIRE(!problems.empty());
    CHECK(problems[0].find("cuDNN 9.5.1 is loaded (") == 0);
    CHECK(problems[0].find(preloaded) != std::string::npos);
    CHECK(problems[0].find(cuda::libraries()[0].built) != std::string::npos);
  }
}
