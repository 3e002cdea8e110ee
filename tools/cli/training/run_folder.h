// The run folder: the files that a training leaves.
//   config.toml                   the settings in effect; --config reads them again
//   env.json                      versions and machine
//   metrics.jsonl, metrics.csv    one row per measurement (metrics_row)
//   log.txt                       the messages of stderr, with the time
//   trace.json, op_table.txt      with --profile (run_profile.h)
//   last.safetensors, best.safetensors, step-N.safetensors   checkpoints (checkpoint_writer.h)
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "lathe/core/profile/memory_use.h"
#include "lathe/tools/cli/row.h"

namespace lathe::cli {

/// The version of metrics.jsonl and metrics.csv; rises when a column changes its meaning.
inline constexpr int64_t kMetricsSchema = 1;

struct Metrics {
  int64_t epoch = 0;  // from 1
  int64_t step = 0;   // steps of the run so far
  // "train": mean since the last such row; "val": an evaluation, of the part that --val-split keeps
  // or, without it, of the test set; "test": with --val-split, of the test set at the end.
  std::string split = {};
  double loss = 0, accuracy = 0;  // accuracy from 0 to 1
  double lr = 0;                  // of the last step
  double images_per_second = 0;
  std::string time = {};  // when the row was made: time_text()
  // Of the device that computes, for the steps or the evaluation of the row. Its peak is written,
  // and what the allocator has reserved.
  profile::MemoryUse memory = {};
  double loss_scale = 0;  // 0: there is none, and the row leaves out this and the next
  int64_t skipped_steps = 0;
};

Row metrics_row(const Metrics& metrics);

/// A time in UTC to the millisecond, as in RFC 3339: "2026-01-31T23:59:59.125Z".
std::string time_text(std::chrono::system_clock::time_point time);

/// Where the folders of runs are made that no --run-dir names, from the working directory.
inline constexpr char kUsualRuns[] = "runs";

/// Makes the new folder `requested` or, if that is empty, runs/<name>-<date>-N below the working
/// directory with the first free N. If several processes request one folder, only one gets it.
/// throws: UsageError if `requested` already holds a file of a run; FileError.
std::filesystem::path make_run_folder(const std::string& requested, const std::string& name,
                                      const std::string& date);

/// Misses the files of a training that somebody removes while it goes on.
class RunFilesCheck {
 public:
  /// Call when the folder has all files that a training begins with.
  explicit RunFilesCheck(std::filesystem::path folder);

  /// Call at the end, when all is saved. `has_best`: best.safetensors was written, too.
  /// throws: CommandError (kError) with the names of files that are gone, and of metrics that are
  /// not the files that the rows went to.
  void check(bool has_best) const;

 private:
  std::filesystem::path folder_;
  std::vector<std::string> metrics_;  // which files they are
};

/// Appends to metrics.jsonl and metrics.csv. When add() returns, the system has the row.
class MetricsFiles {
 public:
  /// Makes new files or, for a run that goes on, opens the existing ones. The CSV begins with the
  /// names of `columns`. If it has a header already, that stays: the CSV's rows keep to its
  /// columns, also where they are those of an earlier version.
  /// throws: FileError; CommandError if the header cannot be written.
  MetricsFiles(const std::filesystem::path& folder, const Row& columns, bool goes_on = false);
  ~MetricsFiles();
  MetricsFiles(const MetricsFiles&) = delete;
  MetricsFiles& operator=(const MetricsFiles&) = delete;

  /// throws: CommandError naming the file and the cause; then neither file has the row.
  void add(const Row& row);

  /// Rows in the files, including those of an earlier part of the run.
  int64_t rows() const { return rows_; }
  /// Keeps the first `rows` rows, or all if there are fewer. New rows follow them.
  /// throws: FileError.
  void cut(int64_t rows);

 private:
  void open(bool goes_on);
  void begin_csv(const Row& columns);
  void close_files();

  std::string jsonl_path_, csv_path_;
  std::vector<std::string> columns_;  // of the CSV
  int jsonl_ = -1, csv_ = -1;
  int64_t rows_ = 0;
};

/// The date as "20260131".
std::string today();

}  // namespace lathe::cli
