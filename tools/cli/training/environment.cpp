// environment_row(): versions, processor, GPUs and build options.
#include "lathe/tools/cli/training/environment.h"

#include <sys/utsname.h>

#include "lathe/core/cuda.h"
#include "lathe/core/machine/info.h"
#include "lathe/core/text/formatted.h"
#include "lathe/tools/cli/revision.h"
#include "lathe/tools/cli/training/compute.h"

namespace lathe::cli {

using train::Row;

Row environment_row() {
  const BuildInfo build = build_info();
  const CpuInfo cpu = cpu_info();
  Row row;
  row.add("lathe", build.version);
  if (!revision().empty()) row.add("revision", std::string(revision()));
  row.add("compiler", build.compiler).add("build_type", build.build_type).add("march", build.march);
  if (!build.sanitizers.empty()) row.add("sanitizers", build.sanitizers);
  for (const LibraryInfo& library : build.libraries) {
    row.add(library.name, library.version.empty() ? "off" : library.version);
  }
  row.add("convolution", convolution_text(cpu::onednn_info()));
  for (const cuda::Library& library : cuda::libraries()) {
    const char* const otherwise = library.problem.empty() ? "not loaded" : "not found";
    row.add(library.name, library.loaded.empty() ? otherwise : library.loaded);
  }
  utsname system{};
  uname(&system);
  return row.add("cuda", build.cuda ? "on" : "off")
      .add("cpu", cpu.model)
      .add("cpu_flags", joined(cpu.flags, " "))
      .add("usable_cpus", cpu.usable_cpus)
      .add("memory_bytes", cpu.memory_bytes)
      .add("system", formatted("{} {} {}", system.sysname, system.release, system.machine));
}

}  // namespace lathe::cli
