// Loads oneDNN and the OpenMP that it brings along; see onednn_table.h.
#include "lathe/ops/onednn_table.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "lathe/core/error.h"

namespace lathe::cpu {
namespace {

constexpr const char* kLibrary = LATHE_ONEDNN_LIBRARY;  // from cmake/FindDNNL.cmake

/// While it lives, a library that is loaded finds OMP_WAIT_POLICY=passive in the environment,
/// unless the user has set the variable. OpenMP's threads would otherwise spin between two
/// operations and take the processor from other work on the machine and from our own threads.
///
/// It does not use setenv, which may move the variables while another thread reads one.
class PassiveWaiting {
 public:
  PassiveWaiting() {
    if (std::getenv("OMP_WAIT_POLICY") || std::getenv("GOMP_SPINCOUNT")) return;
    static char policy[] = "OMP_WAIT_POLICY=passive";
    // Never freed, because a thread that has begun to read it may still do so.
    static auto& kept = *new std::vector<std::vector<char*>>;
    std::vector<char*>& variables = kept.emplace_back();
    for (char** each = environ; each && *each; ++each) variables.push_back(*each);
    variables.insert(variables.end(), {policy, nullptr});
    before_ = environ;
    ours_ = environ = variables.data();
  }
  ~PassiveWaiting() {
    if (ours_ && environ == ours_) environ = before_;
  }
  PassiveWaiting(const PassiveWaiting&) = delete;
  PassiveWaiting& operator=(const PassiveWaiting&) = delete;

 private:
  char **before_ = nullptr, **ours_ = nullptr;
};

void* open_library() {
  constexpr int kHow = RTLD_NOW | RTLD_LOCAL;
#ifdef LATHE_ONEDNN_FOLDER  // the build's folder goes first, where the system does not look in it
  if (void* const built_with = dlopen(concat(LATHE_ONEDNN_FOLDER "/", kLibrary).c_str(), kHow))
    return built_with;
#endif
  void* const library = dlopen(kLibrary, kHow);
  LATHE_CHECK(Error, library, "oneDNN cannot be loaded: ", library ? "" : dlerror(),
              " (install it, or build with LATHE_ONEDNN=OFF)");
  return library;
}

template <class F>
void find(void* library, const char* name, F& function) {
  function = reinterpret_cast<F>(dlsym(library, name));
}

OneDnn load() {
  const PassiveWaiting waiting;
  void* const library = open_library();  // stays loaded
  OneDnn table = {};
#define LATHE_ONEDNN_FIND(name)     \
  find(library, #name, table.name); \
  LATHE_CHECK(Error, table.name, kLibrary, " lacks the function " #name);
  LATHE_ONEDNN_FUNCTIONS(LATHE_ONEDNN_FIND)
  LATHE_ONEDNN_VERSION_FUNCTIONS(LATHE_ONEDNN_FIND)
#undef LATHE_ONEDNN_FIND
  // This also searches the libraries that oneDNN is linked with.
  find(library, "omp_get_max_threads", table.omp_get_max_threads);
  find(library, "omp_set_num_threads", table.omp_set_num_threads);
  // LLVM's OpenMP reads the environment in the first call.
  if (table.omp_get_max_threads) table.omp_get_max_threads();
  return table;
}

}  // namespace

const OneDnn& onednn() {
  static const OneDnn table = load();
  return table;
}

}  // namespace lathe::cpu
