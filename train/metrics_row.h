// MetricsRow: what a training measured, over some steps or in an evaluation.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "lathe/core/config.h"
#include "lathe/core/hooks/memory_use.h"
#include "lathe/train/row.h"

namespace lathe::train {

/// The version of metrics.jsonl and metrics.csv; rises when a column changes its meaning.
inline constexpr int64_t kMetricsSchema = 1;

/// Values of metrics under their names, in the order in which they were added.
using Values = std::vector<std::pair<std::string, double>>;

/// The value of that name; NaN if there is none.
LATHE_API double value_of(const Values& values, const std::string& name);

struct MetricsRow {
  int64_t epoch = 0;  // from 1
  int64_t step = 0;   // steps of the run so far
  // "train": means since the last such row; "val": an evaluation; "test": the one at the end.
  std::string split = {};
  double loss = 0;
  Values metrics = {};
  double lr = 0;  // of the last step
  double samples_per_second = 0;
  bool of_images = true;  // the samples are called so, as those of classifications always were
  std::string time = {};  // when the row was made: time_text()
  // The memory of the device that computes, for the steps or the evaluation of the row. The row has
  // its peak, and what the allocator has reserved.
  profile::MemoryUse memory = {};
  double loss_scale = 0;  // 0: there is none, and the row leaves out this and the next
  int64_t skipped_steps = 0;
};

/// The column of samples_per_second.
LATHE_API const char* rate_column(const MetricsRow& row);

/// The row as the metrics files have it.
LATHE_API Row to_row(const MetricsRow& metrics);

/// "memory_peak_optimiser_state": the column of rows that has the bytes of a tag at the peak.
LATHE_API std::string memory_column(profile::MemoryTag tag);

/// Adds memory_peak_bytes, and the column of each tag.
LATHE_API Row& add_memory(Row& row, const profile::MemoryUse& memory);

/// A time in UTC to the millisecond, as in RFC 3339: "2026-01-31T23:59:59.125Z".
LATHE_API std::string time_text(std::chrono::system_clock::time_point time);

}  // namespace lathe::train
