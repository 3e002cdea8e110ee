// Which GPUs the compiled kernels run on. Contract: architectures.h.
#include "lathe/core/gpu/architectures.h"

#include <charconv>
#include <system_error>

namespace lathe::cuda {

namespace {

bool entry_runs_on(std::string_view entry, ComputeCapability gpu) {
  int number = 0;  // 90: major 9, minor 0
  const auto parsed = std::from_chars(entry.data(), entry.data() + entry.size(), number);
  if (parsed.ec != std::errc()) return true;
  const std::string_view kind = entry.substr(static_cast<size_t>(parsed.ptr - entry.data()));

  const int asked = gpu.major * 10 + gpu.minor;
  const bool same_major = number / 10 == gpu.major;
  if (kind.starts_with('a')) return number == asked;
  if (kind.starts_with('f') || kind == "-real") return same_major && number <= asked;
  return number <= asked;  // PTX, alone or beside machine code
}

}  // namespace

bool kernels_run_on(std::string_view architectures, ComputeCapability gpu) {
  while (!architectures.empty()) {
    const size_t end = architectures.find(' ');
    const std::string_view entry = architectures.substr(0, end);
    if (!entry.empty() && entry_runs_on(entry, gpu)) return true;
    architectures.remove_prefix(end == std::string_view::npos ? architectures.size() : end + 1);
  }
  return false;
}

}  // namespace lathe::cuda
