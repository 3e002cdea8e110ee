// Measures the peaks of a device, and draws them.
#include "lathe/tools/cli/commands/roofline.h"

#include <algorithm>

#include "lathe/core/copy.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/matmul.h"
#include "lathe/ops/random.h"
#include "lathe/tools/cli/commands/arithmetic_peak.h"
#include "lathe/train/report/line_chart.h"

namespace lathe::cli {

Roofline measure_roofline(const Settings& settings, DType dtype, const TimingOptions& timing) {
  Roofline peaks{1e9 * settings.peak_gflops, 1e9 * settings.peak_gbytes};
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

std::string roofline_svg(const std::string& title, const Roofline& roof,
                         const std::vector<RooflineDot>& dots) {
  const double ridge = roof.operations_per_second / roof.bytes_per_second;
  double low = ridge / 4, high = ridge * 4;  // operations per byte
  std::vector<report::ChartLine> lines(1);
  for (const RooflineDot& dot : dots) {
    const double intensity = dot.operations / dot.bytes;
    low = std::min(low, intensity / 2);
    high = std::max(high, intensity * 2);
    auto line = std::ranges::find(lines, dot.pass, &report::ChartLine::name);
    if (line == lines.end())
      line = lines.insert(line, {.name = dot.pass, .points = {}, .faint = false, .dots = true});
    line->points.push_back({intensity, dot.operations / dot.seconds / 1e9});
  }
  for (size_t i = 1; i < lines.size(); ++i)
    std::ranges::sort(lines[i].points, {}, &report::ChartPoint::x);
  const auto gflops = [&](double intensity) {
    return std::min(roof.operations_per_second, roof.bytes_per_second * intensity) / 1e9;
  };
  double slowest = gflops(low), fastest = gflops(high);
  for (const report::ChartLine& line : lines) {
    for (const report::ChartPoint& dot : line.points) {
      slowest = std::min(slowest, dot.y);
      fastest = std::max(fastest, dot.y);
    }
  }
  lines[0] = {.name = "roofline",
              .points = {{low, gflops(low)}, {ridge, gflops(ridge)}, {high, gflops(high)}}};
  return report::svg_of(
      {.title = title,
       .x = {.label = "operations per byte", .logarithmic = true},
       .y = {.label = "GFLOP/s", .logarithmic = true, .low = slowest / 1.5, .high = fastest * 1.5},
       .lines = std::move(lines)});
}

}  // namespace lathe::cli
