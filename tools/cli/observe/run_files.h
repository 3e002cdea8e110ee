// RunFiles: what a run folder tells about a training, as far as it can be read. A folder may be of
// a run that goes on, that was killed while it wrote, or not complete for another reason.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "lathe/core/hooks/memory_tag.h"

namespace lathe::cli {

/// A row of metrics.jsonl. Numbers that are missing or null are NaN.
struct MetricsPoint {
  int64_t epoch = 0, step = 0;
  std::string split;  // "train", "val", "test"
  double loss, accuracy, lr, images_per_second, loss_scale, skipped_steps;
  double memory;                                           // bytes at the peak
  std::array<double, profile::kMemoryTags> memory_of_tag;  // of them
  std::string time;
};

struct RunFiles {
  using Entries = std::vector<std::pair<std::string, std::string>>;  // name, value

  std::filesystem::path folder;
  std::vector<MetricsPoint> metrics;
  Entries config, environment;  // of config.toml and env.json, in their order
  std::string op_table;         // of op_table.txt, which --profile writes; "": there is none
  std::vector<std::string> last_lines;  // of log.txt, the newest last
  std::vector<std::string> remarks;     // what is missing or damaged, a sentence each

  /// The value of a setting, "" if config.toml does not have it.
  std::string setting(const std::string& key) const;
  /// The row of this split with the highest accuracy, the first of equal ones. nullptr if there is
  /// none.
  const MetricsPoint* best(const std::string& split) const;
  /// The row with the highest peak of memory. nullptr if none has one.
  const MetricsPoint* largest() const;
  /// The name to call the run by: that of its folder.
  std::string name() const;
};

/// Reads a run folder. What is missing or cannot be read becomes a remark, and is no error.
/// throws: CommandError (kData) if there is no such folder, or it holds no file of a run.
RunFiles read_run_files(const std::filesystem::path& folder);

}  // namespace lathe::cli
