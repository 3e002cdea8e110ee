// lathe info: versions, devices, number types.
#include <fmt/format.h>

#include "lathe/core/device.h"
#include "lathe/core/dtype.h"
#include "lathe/tools/cli/command.h"
#include "lathe/tools/cli/environment.h"
#include "lathe/tools/cli/output.h"

namespace lathe::cli {

ExitCode run_info(const Invocation& call) {
  const Output out(call.settings.json);
  const Row environment = environment_row();
  out.row(environment);
  for (const auto& [name, value] : environment.values()) {
    if (name == "memory_bytes") {
      out.text(fmt::format("{:<12} {:.1f} GiB", "memory",
                           static_cast<double>(std::get<int64_t>(value)) / (1 << 30)));
    } else if (const auto* text = std::get_if<std::string>(&value)) {
      out.text(fmt::format("{:<12} {}", name, *text));
    } else {
      out.text(fmt::format("{:<12} {}", name, std::get<int64_t>(value)));
    }
  }
  std::string dtypes;
  for (const DType dtype : {kF16, kBF16, kF32, kF64, kU8, kI8, kI16, kI32, kI64, kBool}) {
    dtypes += ' ';
    append_text(dtypes, dtype);
  }
  out.text(fmt::format("{:<12}{}", "dtypes", dtypes));
  out.text(fmt::format("{:<12} cpu{}", "devices", cuda_is_available() ? ", cuda:0" : ""));
  return ExitCode::kDone;
}

}  // namespace lathe::cli
