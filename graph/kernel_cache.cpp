// Which file holds a text's code. Contract: kernel_cache.h.
#include "lathe/graph/kernel_cache.h"

#include <cstdlib>
#include <mutex>
#include <optional>

#include "lathe/core/error.h"
#include "lathe/core/format.h"
#include "lathe/core/hash.h"
#include "lathe/core/log.h"
#include "lathe/graph/kernel_compiler.h"
#include "lathe/graph/kernel_folder.h"

namespace lathe::jit {

namespace {

struct KernelFolder {
  std::mutex mutex;
  std::string path;  // guarded
};

KernelFolder& the_folder() {
  static KernelFolder& folder = *[] {
    auto* const made = new KernelFolder;
    if (const char* const path = secure_getenv("LATHE_KERNEL_CACHE")) made->path = path;
    return made;
  }();
  return folder;
}

}  // namespace

std::string kernel_code(const std::string& text, const std::string& architecture) {
  std::string code;
  load_kernel_code(text, architecture, [&](const std::string& given) { code = given; });
  return code;
}

void load_kernel_code(const std::string& text, const std::string& architecture,
                      const std::function<void(const std::string& code)>& load) {
  const std::string folder = kernel_cache();
  if (folder.empty()) return load(compile_kernels(text, architecture));
  const std::string name =
      sha256_hex(concat(kernel_compiler_identity(), "\n", architecture, "\n", text));
  if (const std::optional<std::string> kept = kept_code(folder, name)) {
    try {
      return load(*kept);
    } catch (const CudaError& error) {
      warn_once(concat(folder, "/", name), concat("kernel cache: ", folder, "/", name, ".kernel: ",
                                                  error.message(), "; compiled again"));
    }
  }
  const std::string code = compile_kernels(text, architecture);
  keep_code(folder, name, code);
  load(code);
}

void set_kernel_cache(const std::string& folder) {
  const std::lock_guard lock(the_folder().mutex);
  the_folder().path = folder;
}

std::string kernel_cache() {
  const std::lock_guard lock(the_folder().mutex);
  return the_folder().path;
}

}  // namespace lathe::jit
