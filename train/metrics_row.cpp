// Rows of metrics as rows of files.
#include "lathe/train/metrics_row.h"

#include <algorithm>
#include <ctime>
#include <limits>

#include "lathe/core/text/formatted.h"

namespace lathe::train {

double value_of(const Values& values, const std::string& name) {
  const auto found = std::ranges::find(values, name, &Values::value_type::first);
  return found == values.end() ? std::numeric_limits<double>::quiet_NaN() : found->second;
}

const char* rate_column(const MetricsRow& row) {
  return row.of_images ? "images_per_second" : "samples_per_second";
}

Row to_row(const MetricsRow& m) {
  Row row;
  row.add("epoch", m.epoch).add("step", m.step).add("split", m.split).add("loss", m.loss);
  for (const auto& [name, value] : m.metrics) row.add(name, value);
  row.add("lr", m.lr).add(rate_column(m), m.samples_per_second).add("time", m.time);
  add_memory(row, m.memory).add("memory_reserved_bytes", m.memory.reserved);
  if (m.loss_scale > 0) row.add("loss_scale", m.loss_scale).add("skipped_steps", m.skipped_steps);
  return row.add("schema", kMetricsSchema);
}

std::string memory_column(profile::MemoryTag tag) {
  std::string name(profile::name_of(tag));
  std::ranges::replace(name, ' ', '_');
  return formatted("memory_peak_{}", name);
}

Row& add_memory(Row& row, const profile::MemoryUse& memory) {
  row.add("memory_peak_bytes", memory.peak);
  for (int t = 0; t < profile::kMemoryTags; ++t) {
    const auto tag = static_cast<profile::MemoryTag>(t);
    row.add(memory_column(tag), memory.of_peak(tag));
  }
  return row;
}

std::string time_text(std::chrono::system_clock::time_point time) {
  using std::chrono::floor, std::chrono::milliseconds, std::chrono::seconds;
  const auto whole = floor<seconds>(time);
  const std::time_t since_1970 = std::chrono::system_clock::to_time_t(whole);
  std::tm utc{};
  char text[32];
  std::strftime(text, sizeof text, "%FT%T", gmtime_r(&since_1970, &utc));
  return formatted("{}.{:03}Z", text, floor<milliseconds>(time - whole).count());
}

}  // namespace lathe::train
