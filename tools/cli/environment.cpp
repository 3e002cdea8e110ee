#include "lathe/tools/cli/environment.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <fstream>

#include <fmt/format.h>

#include "lathe/core/config.h"
#include "lathe/core/thread_pool.h"
#include "lathe/core/version.h"

namespace lathe::cli {
namespace {

utsname system_names() {
  utsname names{};
  uname(&names);
  return names;
}

}  // namespace

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return system_names().machine;
}

int64_t memory_bytes() {
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? int64_t{pages} * page : 0;
}

Row environment_row() {
  const utsname names = system_names();
  return Row()
      .add("lathe", version())
      .add("build", LATHE_CLI_BUILD)    // "Release, GNU 12.2.0, -march=x86-64-v2"
      .add("onednn", LATHE_CLI_ONEDNN)  // a version, or "off"
      .add("zlib", LATHE_CLI_ZLIB)
      .add("curl", LATHE_CLI_CURL)
      .add("cuda", kHasCuda ? "on" : "off")
      .add("cpu", cpu_name())
      .add("usable_cpus", usable_cpus())
      .add("memory_bytes", memory_bytes())
      .add("system", fmt::format("{} {} {}", names.sysname, names.release, names.machine));
}

}  // namespace lathe::cli
