// Files of fused kernels. Contract: kernel_cache.h.
#include "lathe/graph/kernel_cache.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "lathe/core/crc32c.h"
#include "lathe/core/error.h"
#include "lathe/core/file.h"
#include "lathe/core/hash.h"
#include "lathe/core/log.h"
#include "lathe/graph/kernel_compiler.h"

namespace lathe::jit {

namespace {

constexpr std::string_view kKernelSuffix = ".kernel";
constexpr size_t kMostFiles = 1024;
constexpr int64_t kMostKernelBytes = int64_t{64} << 20;

struct KernelFolder {
  std::mutex mutex;
  std::string path;  // guarded
};

KernelFolder& the_folder() {
  static KernelFolder& folder = *[] {
    auto* const made = new KernelFolder;
    if (const char* const path = std::getenv("LATHE_KERNEL_CACHE")) made->path = path;
    return made;
  }();
  return folder;
}

/// A file's first line. It tells a file that was cut off or changed.
std::string head_of(std::string_view code) {
  return concat("lathe kernel 1, ", code.size(), " bytes, crc32c ",
                crc32c(code.data(), code.size()), "\n");
}

/// Nothing if there is no such file, or a damaged one.
std::optional<std::string> read_code(const std::string& path) {
  std::error_code none;
  if (!std::filesystem::is_regular_file(path, none)) return std::nullopt;
  try {
    const std::string content = read_file(path, kMostKernelBytes);
    std::string code = content.substr(std::min(content.find('\n'), content.size() - 1) + 1);
    if (content == head_of(code) + code) return code;
    warn_once(path, concat(path, ": damaged, its kernel is compiled again"));
  } catch (const FileError& error) {
    warn_once(path, concat(error.message(), "; its kernel is compiled again"));
  }
  return std::nullopt;
}

/// Leaves the newest files and room for one more.
void remove_oldest(const std::string& folder) {
  std::vector<std::pair<std::filesystem::file_time_type, std::filesystem::path>> files;
  for (const std::filesystem::directory_entry& entry :
       std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == kKernelSuffix)
      files.emplace_back(entry.last_write_time(), entry);
  }
  if (files.size() < kMostFiles) return;
  std::ranges::sort(files);
  files.resize(files.size() - kMostFiles + 1);
  for (const auto& [time, path] : files) std::filesystem::remove(path);
}

void write_code(const std::string& folder, const std::string& path, const std::string& code) {
  try {
    std::filesystem::create_directories(folder);
    remove_oldest(folder);
    write_file_atomic(path, head_of(code) + code);
  } catch (const FileError& error) {
    warn_once(folder, concat(error.message(), "; the kernel is compiled again at the next start"));
  } catch (
      const std::filesystem::filesystem_error& error) {  // or another process removed a file first
    warn_once(folder, concat(folder, ": ", error.code().message(),
                             "; kernels may be compiled again at the next start"));
  }
}

}  // namespace

std::string kernel_code(const std::string& text, const std::string& architecture) {
  const std::string folder = kernel_cache();
  if (folder.empty()) return compile_kernels(text, architecture);
  const std::string identity = concat(kernel_compiler_identity(), "\n", architecture, "\n", text);
  const std::string path = concat(folder, "/", sha256_hex(identity), kKernelSuffix);
  if (std::optional<std::string> kept = read_code(path)) return std::move(*kept);
  std::string code = compile_kernels(text, architecture);
  write_code(folder, path, code);
  return code;
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
