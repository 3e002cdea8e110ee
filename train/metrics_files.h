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

/// An observer that appends each row of metrics to metrics.jsonl and metrics.csv in the run folder.
/// A run that goes on keeps the rows up to its step. Does nothing without a run folder.
LATHE_API std::shared_ptr<Observer> metrics_files();

/// Appends to metrics.jsonl and metrics.csv. When add() returns, the system has the row.
class LATHE_API MetricsFiles {
 public:
  /// Makes new files or, for a run that goes on, opens the existing ones. The CSV begins with the
  /// names of `columns`. If it has a header already, that stays: the CSV's rows keep to its
  /// columns, also where they are those of an earlier version.
  /// throws: FileError.
  MetricsFiles(const std::filesystem::path& folder, const Row& columns, bool goes_on = false);
  ~MetricsFiles();
  MetricsFiles(const MetricsFiles&) = delete;
  MetricsFiles& operator=(const MetricsFiles&) = delete;

  /// throws: FileError naming the file and the cause; then neither file has the row.
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

}  // namespace lathe::train
