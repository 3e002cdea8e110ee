// The roofline: time for the operations against time for the bytes.
#include "lathe/profile/rates.h"

#include <algorithm>

namespace lathe::profile {

namespace {

/// A call on the CPU below this is mostly checks, allocation and the record of its gradient.
constexpr int64_t kShortCallNs = 5'000;
/// Operations for each byte at which both take as long, where the peaks are not known.
constexpr double kUsualRidge = 10;

double seconds_of(const Average& row) {
  if (row.kind == Kind::kDevice) return 1e-9 * static_cast<double>(row.device_total_ns);
  return 1e-9 * static_cast<double>(row.self_device_ns > 0 ? row.self_device_ns : row.self_cpu_ns);
}

}  // namespace

Rates rates_of(const Average& row, const Peaks& peaks) {
  const double seconds = seconds_of(row);
  Rates rates;
  if (seconds <= 0) return rates;
  rates.flops_per_second = static_cast<double>(row.flops) / seconds;
  rates.bytes_per_second = static_cast<double>(row.bytes) / seconds;
  if (peaks.flops_per_second > 0) rates.of_peak = rates.flops_per_second / peaks.flops_per_second;
  if (peaks.bytes_per_second > 0)
    rates.of_peak = std::max(rates.of_peak, rates.bytes_per_second / peaks.bytes_per_second);
  return rates;
}

std::string_view bound_of(const Average& row, const Peaks& peaks) {
  if (row.kind == Kind::kData) return "data";
  if (row.kind == Kind::kSync) return "sync";
  if (row.kind == Kind::kView) return "overhead";
  if (row.kind == Kind::kUser || row.kind == Kind::kBackward || row.kind == Kind::kDevice)
    return "";
  if (row.self_device_ns > 0 && row.self_cpu_ns > row.self_device_ns) return "launch";
  if (row.self_device_ns == 0 && row.self_cpu_ns < kShortCallNs * row.calls) return "overhead";
  if (row.flops == 0) return row.bytes == 0 ? "" : "memory";
  const bool known = peaks.flops_per_second > 0 && peaks.bytes_per_second > 0;
  const double ridge = known ? peaks.flops_per_second / peaks.bytes_per_second : kUsualRidge;
  return static_cast<double>(row.flops) >= ridge * static_cast<double>(row.bytes) ? "compute"
                                                                                  : "memory";
}

}  // namespace lathe::profile
