// lathe info: versions, devices, number types.

#include "lathe/core/cuda.h"
#include "lathe/core/cuda_backend.h"
#include "lathe/core/device.h"
#include "lathe/core/dtype.h"
#include "lathe/core/text/formatted.h"
#include "lathe/tools/cli/output.h"
#include "lathe/tools/cli/settings/command.h"
#include "lathe/tools/cli/training/environment.h"

namespace lathe::cli {
namespace {

constexpr double kGibibyte = 1 << 30;

std::string gpu_text(const cuda::DeviceInfo& gpu) {
  std::string text = formatted("{}  sm_{}{}  {:.1f} of {:.1f} GiB free", gpu.name, gpu.major,
                               gpu.minor, static_cast<double>(gpu.free_bytes) / kGibibyte,
                               static_cast<double>(gpu.total_bytes) / kGibibyte);
  if (gpu.uuid.empty()) return text;  // NVML is missing
  text += formatted("  {}  util {} %  {} C  {} MHz", gpu.uuid, gpu.utilization_percent,
                    gpu.temperature_c, gpu.clock_mhz);
  for (const auto& process : gpu.processes) {
    text += formatted("\n{:<14}   process {}: {:.1f} GiB", "", process.id,
                      static_cast<double>(process.bytes) / kGibibyte);
  }
  return text;
}

/// The CPU and every GPU, or why there is none.
void print_devices(const Output& out) {
  const cuda::Versions versions = cuda::versions();
  if (!versions.runtime.empty()) {
    out.row(Row()
                .add("cuda_runtime", versions.runtime)
                .add("cuda_driver", versions.driver)
                .add("driver", versions.driver_package));
    out.text(
        formatted("{:<14} runtime {}, driver for {}{}", "CUDA", versions.runtime,
                  versions.driver.empty() ? "none" : versions.driver,
                  versions.driver_package.empty() ? "" : " (" + versions.driver_package + ")"));
  }
  for (const cuda::Library& library : cuda::libraries()) {
    out.row(Row()
                .add("library", library.name)
                .add("built", library.built)
                .add("loaded", library.loaded)
                .add("path", library.path)
                .add("problem", library.problem));
    if (!library.problem.empty()) out.text(formatted("{:<14} {}", "warning", library.problem));
  }
  out.text(formatted("{:<14} cpu{}", "devices",
                     cuda_is_available() ? "" : " (" + cuda::unavailable_reason() + ")"));
  for (int i = 0; i < cuda::device_count(); ++i) {
    const cuda::DeviceInfo gpu = cuda::device_info(i);
    out.row(Row()
                .add("device", formatted("cuda:{}", i))
                .add("name", gpu.name)
                .add("uuid", gpu.uuid)
                .add("compute_capability", formatted("{}.{}", gpu.major, gpu.minor))
                .add("multiprocessors", gpu.multiprocessors)
                .add("total_bytes", static_cast<int64_t>(gpu.total_bytes))
                .add("free_bytes", static_cast<int64_t>(gpu.free_bytes))
                .add("clock_mhz", gpu.clock_mhz)
                .add("memory_clock_mhz", gpu.memory_clock_mhz)
                .add("temperature_c", gpu.temperature_c)
                .add("utilization_percent", gpu.utilization_percent)
                .add("processes", static_cast<int64_t>(gpu.processes.size()))
                .add("problem", gpu.problem));
    out.text(formatted("{:<14} {}", formatted("cuda:{}", i), gpu_text(gpu)));
    if (!gpu.problem.empty()) out.text(formatted("{:<14} {}", "warning", gpu.problem));
  }
}

}  // namespace

ExitCode run_info(const Invocation& call) {
  const Output out(call.settings.json);
  cuda::load_libraries();
  const Row environment = environment_row();
  out.row(environment);
  for (const auto& [name, value] : environment.values()) {
    if (name == "memory_bytes") {
      out.text(formatted("{:<14} {:.1f} GiB", "memory",
                         static_cast<double>(std::get<int64_t>(value)) / (1 << 30)));
    } else if (const auto* text = std::get_if<std::string>(&value)) {
      out.text(formatted("{:<14} {}", name, *text));
    } else {
      out.text(formatted("{:<14} {}", name, std::get<int64_t>(value)));
    }
  }
  std::string dtypes;
  for (const DType dtype : {kF16, kBF16, kF32, kF64, kU8, kI8, kI16, kI32, kI64, kBool}) {
    dtypes += ' ';
    append_text(dtypes, dtype);
  }
  out.text(formatted("{:<14}{}", "dtypes", dtypes));
  print_devices(out);
  return ExitCode::kDone;
}

}  // namespace lathe::cli
