// RunFiles: what a run folder tells about a training, as far as it can be read. A folder may be of
// a run that goes on, that was killed while it wrote, or not complete for another reason. Rows of
// metrics are those of train::metrics_files(); the other files are read where they are.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "lathe/core/config.h"
#include "lathe/core/hooks/memory_tag.h"
#include "lathe/train/metrics_row.h"

namespace lathe::report {

/// A row of metrics.jsonl. Numbers that are missing or null are NaN.
struct MetricsPoint {
  int64_t epoch = 0, step = 0;
  std::string split;  // "train", "val", "test"
  double loss, accuracy, lr, images_per_second, loss_scale, skipped_steps;
  bool of_images = true;                                   // the samples of images_per_second
  train::Values metrics = {};                              // all others
  double memory;                                           // bytes at the peak
  std::array<double, profile::kMemoryTags> memory_of_tag;  // of them
  std::string time;
};

struct RunFiles {
  using Entries = std::vector<std::pair<std::string, std::string>>;  // name, value

  std::filesystem::path folder;
  std::vector<MetricsPoint> metrics;
  Entries config, environment;  // settings, and the values of env.json, in their order
  std::string op_table;         // of op_table.txt, which --profile writes; "": there is none
  std::vector<std::string> last_lines;  // of log.txt, the newest last
  std::vector<std::string> remarks;     // what is missing or damaged, a sentence each

  /// The value of a setting, "" if there is none of that name.
  LATHE_API std::string setting(const std::string& key) const;
  /// The row of this split with the highest accuracy, the first of equal ones. nullptr if there is
  /// none.
  LATHE_API const MetricsPoint* best(const std::string& split) const;
  /// The row with the highest peak of memory. nullptr if none has one.
  LATHE_API const MetricsPoint* largest() const;
  /// The name to call the run by: that of its folder.
  LATHE_API std::string name() const;
};

/// The settings in the text of config.toml. What it throws becomes a remark.
using ReadSettings = std::function<RunFiles::Entries(const std::string& text)>;

/// Reads a run folder. What is missing or cannot be read becomes a remark, and is no error. With
/// `settings` the run is one that a command began: it has config.toml and env.json. Without, the
/// first is not read, and the second need not be there.
/// throws: FileError if there is no such folder; DataError if it holds no file of a run.
LATHE_API RunFiles read_run_files(const std::filesystem::path& folder,
                                  const ReadSettings& settings = {});

}  // namespace lathe::report
