// Measures the peaks of a device.
#include "lathe/tools/cli/commands/roofline.h"

#include <algorithm>

#include "lathe/core/copy.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/matmul.h"
#include "lathe/ops/random.h"
#include "lathe/tools/cli/commands/arithmetic_peak.h"

namespace lathe::cli {

plan::Roofline measure_roofline(const Settings& settings, DType dtype,
                                const TimingOptions& timing) {
  plan::Roofline peaks{1e9 * settings.peak_gflops, 1e9 * settings.peak_gbytes};
  const Device device = timing.device;
  if (peaks.operations_per_second == 0) {
    const int64_t n = device.is_cuda() ? 8192 : 1024;
    const Tensor a = randn({n, n}, {.device = device}).to(dtype), b = a.clone();
    const auto side = static_cast<double>(n);
    peaks.operations_per_second =
        2 * side * side * side / measure([&] { matmul(a, b); }, timing).low;
    if (device.is_cpu() && dtype == kF32) {
      peaks.operations_per_second =
          std::max(peaks.operations_per_second, measure_arithmetic_peak(timing));
    }
  }
  if (peaks.bytes_per_second == 0) {
    const int64_t bytes = int64_t{device.is_cuda() ? 512 : 64} << 20;
    const Tensor from = zeros({bytes}, {.dtype = kU8, .device = device}), to = empty_like(from);
    peaks.bytes_per_second =
        2 * static_cast<double>(bytes) / measure([&] { copy_values(to, from); }, timing).low;
  }
  return peaks;
}

}  // namespace lathe::cli
