// Reads /proc for the machine; the build's facts are LATHE_INFO_* definitions from
// core/CMakeLists.txt.
#include "lathe/core/machine/info.h"

#include <algorithm>

#include "lathe/core/error.h"
#include "lathe/core/files/file.h"
#include "lathe/core/process_limits.h"
#include "lathe/core/thread_pool.h"
#include "lathe/core/version.h"

namespace lathe {

namespace {

constexpr std::string_view kKnownFlags[] = {"avx",         "avx2",     "fma",         "f16c",
                                            "avx512f",     "avx512bw", "avx512_vnni", "avx512_bf16",
                                            "avx512_fp16", "amx_tile", "amx_bf16",    "asimd",
                                            "asimdhp",     "bf16",     "sve"};

// The value of the first line "key : value", blanks removed; empty if there is none.
std::string_view value_of(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const std::string_view name = line.substr(0, line.find_last_not_of(" \t", colon - 1) + 1);
    if (colon == 0 || name != key) continue;
    const size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string_view::npos ? "" : line.substr(begin);
  }
  return {};
}

bool holds_word(std::string_view words, std::string_view word) {
  for (size_t at = words.find(word); at != std::string_view::npos; at = words.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || words[at - 1] == ' ') && (end == words.size() || words[end] == ' '))
      return true;
  }
  return false;
}

std::string read_or_empty(const char* path) {
  try {
    return read_file(path, int64_t{16} << 20);
  } catch (const FileError&) {
    return {};
  }
}

}  // namespace

bool CpuInfo::has(std::string_view flag) const {
  return std::find(flags.begin(), flags.end(), flag) != flags.end();
}

CpuInfo info_detail::parse_cpu_info(std::string_view cpuinfo) {
  CpuInfo info;
  info.model = value_of(cpuinfo, "model name");
  if (info.model.empty()) info.model = "unknown";
  std::string_view words = value_of(cpuinfo, "flags");
  if (words.empty()) words = value_of(cpuinfo, "Features");
  for (const std::string_view flag : kKnownFlags) {
    if (holds_word(words, flag)) info.flags.emplace_back(flag);
  }
  return info;
}

CpuInfo cpu_info() {
  CpuInfo info = info_detail::parse_cpu_info(read_or_empty("/proc/cpuinfo"));
  const UsableMemory memory = usable_memory();
  info.memory_bytes = memory.total;
  info.available_bytes = memory.available;
  info.usable_cpus = usable_cpus();
  return info;
}

BuildInfo build_info() {
  return {.version = version(),
          .compiler = LATHE_INFO_COMPILER,
          .build_type = LATHE_INFO_BUILD_TYPE,
          .march = LATHE_INFO_MARCH,
          .sanitizers = LATHE_INFO_SANITIZE,
          .cuda = kHasCuda,
          .libraries = {{"oneDNN", LATHE_INFO_ONEDNN},
                        {"Eigen", LATHE_INFO_EIGEN},
                        {"zlib", LATHE_INFO_ZLIB},
                        {"libcurl", LATHE_INFO_CURL},
                        {"libjpeg-turbo", LATHE_INFO_JPEG},
                        {"libpng", LATHE_INFO_PNG},
                        {"libwebp", LATHE_INFO_WEBP},
                        {"Gloo", LATHE_INFO_GLOO}}};
}

}  // namespace lathe
