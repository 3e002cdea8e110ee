// The run folder: what a training leaves behind.
//   config.toml      the settings in effect; --config takes them again
//   env.json         versions and machine
//   metrics.jsonl, metrics.csv    one row per measurement (metrics_row)
//   log.txt          what was said on stderr, with the time
//   last.safetensors, best.safetensors, step-N.safetensors    checkpoints (checkpoint_writer.h)
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "lathe/tools/cli/row.h"

namespace lathe::cli {

/// Of metrics.jsonl and metrics.csv; goes up when a column changes its meaning.
inline constexpr int64_t kMetricsSchema = 1;

struct Metrics {
  int64_t epoch = 0;  // from 1
  int64_t step = 0;   // steps of the run so far
  std::string split;  // "train": mean since the last such row; "val": the whole test set
  double loss = 0, accuracy = 0;  // accuracy from 0 to 1
  double lr = 0;                  // of the last step
  double images_per_second = 0;
  double loss_scale = 0;  // 0: none, and the row does not hold these two
  int64_t skipped_steps = 0;
};

Row metrics_row(const Metrics& metrics);

/// Makes a new folder `requested`, or runs/<name>-<date>-N below the working directory with the
/// first N that is free. Of several processes that request one folder a single one gets it.
/// throws: UsageError if `requested` holds a file of a run already, FileError.
std::filesystem::path make_run_folder(const std::string& requested, const std::string& name,
                                      const std::string& date);

/// Appends to metrics.jsonl and metrics.csv; each row is on disk's way before add() returns.
class MetricsFiles {
 public:
  /// New files; or, of a run that goes on, those that are there.
  /// throws: FileError.
  explicit MetricsFiles(const std::filesystem::path& folder, bool goes_on = false);
  ~MetricsFiles();
  MetricsFiles(const MetricsFiles&) = delete;
  MetricsFiles& operator=(const MetricsFiles&) = delete;

  /// throws: CommandError naming the file and the cause; the row is then in neither.
  void add(const Row& row);

  /// Rows that were added, those of the run before included.
  int64_t rows() const { return rows_; }
  /// Leaves the first `rows` rows, or all if there are fewer; what comes next follows them.
  /// throws: FileError.
  void cut(int64_t rows);

 private:
  std::string jsonl_path_, csv_path_;
  int jsonl_ = -1, csv_ = -1;
  int64_t rows_ = 0;
};

/// "20260131".
std::string today();

}  // namespace lathe::cli
