// The metrics files of a run folder: metrics.jsonl and metrics.csv.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "lathe/core/config.h"
#include "lathe/train/observer.h"
#include "lathe/train/row.h"

namespace lathe::train {

/// Makes an observer that appends each row of metrics to metrics.jsonl and metrics.csv in the run
/// folder. A resumed run keeps the rows up to the step from which it resumes. Does nothing without
/// a run folder.
LATHE_API std::shared_ptr<Observer> metrics_files();

/// Appends rows to metrics.jsonl and metrics.csv. When add() returns, the operating system has the
/// row, so the row survives a crash of the process.
class LATHE_API MetricsFiles {
 public:
  /// Makes new files or, with `goes_on`, opens the existing files. A new CSV begins with the names
  /// of `columns`. An existing CSV keeps its header, also that of an earlier version of Lathe, and
  /// new rows have the columns of this header.
  /// throws: FileError.
  MetricsFiles(const std::filesystem::path& folder, const Row& columns, bool goes_on = false);
  ~MetricsFiles();
  MetricsFiles(const MetricsFiles&) = delete;
  MetricsFiles& operator=(const MetricsFiles&) = delete;

  /// Appends a row to metrics.jsonl and metrics.csv.
  /// throws: FileError naming the file and the cause. Then the row is in neither file.
  void add(const Row& row);

  /// The number of rows in each file, including rows from before a resume.
  int64_t rows() const { return rows_; }
  /// Removes all rows after the first `rows` rows.
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

}  // namespace lathe::train
