// Metrics files, and the observer that writes them.
#include "lathe/train/metrics_files.h"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "lathe/core/files/file.h"
#include "lathe/train/append_file.h"
#include "lathe/train/errors.h"
#include "lathe/train/trainer.h"

namespace lathe::train {
namespace {

namespace fs = std::filesystem;

/// The first complete line of a file, "" if there is none.
std::string first_line_of_file(const std::string& path) {
  const std::string text = read_file(path, INT64_MAX);
  const size_t newline = text.find('\n');
  return newline == std::string::npos ? "" : text.substr(0, newline);
}

/// The values of `row` under these names, in this order. A name that it lacks gets an empty field.
Row in_columns(const Row& row, const std::vector<std::string>& columns) {
  Row out;
  for (const std::string& column : columns) {
    const auto at =
        std::ranges::find(row.values(), column, &std::pair<std::string, Row::Value>::first);
    if (at == row.values().end()) {
      out.add(column, "");
    } else {
      std::visit([&](const auto& value) { out.add(column, value); }, at->second);
    }
  }
  return out;
}

std::vector<std::string> split(std::string_view header) {
  std::vector<std::string> names;
  while (!header.empty()) {
    const size_t comma = std::min(header.find(','), header.size());
    names.emplace_back(header.substr(0, comma));
    header.remove_prefix(std::min(comma + 1, header.size()));
  }
  return names;
}

class RowWriter : public Observer {
 public:
  void on_start(Trainer& trainer) override {
    if (!trainer.is_first_rank() || trainer.folder().empty()) return;
    attempt([&] {
      files_.emplace(trainer.folder(), to_row(trainer.row_layout()), trainer.goes_on());
      files_->cut(trainer.rows());
      trainer.set_rows(files_->rows());
    });
  }

  void on_row(Trainer&, const MetricsRow& row) override {
    if (files_) attempt([&] { files_->add(to_row(row)); });
  }

 private:
  template <class F>
  void attempt(F f) try {
    f();
  } catch (const FileError& e) {
    throw RecordError(e.message());
  }

  std::optional<MetricsFiles> files_;
};

}  // namespace

std::shared_ptr<Observer> metrics_files() { return std::make_shared<RowWriter>(); }

MetricsFiles::MetricsFiles(const fs::path& folder, const Row& columns, bool goes_on)
    : jsonl_path_((folder / "metrics.jsonl").string()),
      csv_path_((folder / "metrics.csv").string()) {
  try {
    open(goes_on);
    begin_csv(columns);
  } catch (...) {
    close_files();
    throw;
  }
}

MetricsFiles::~MetricsFiles() { close_files(); }

void MetricsFiles::open(bool goes_on) {
  const auto open_file = goes_on ? open_to_append : open_new;
  jsonl_ = open_file(jsonl_path_);
  csv_ = open_file(csv_path_);
}

void MetricsFiles::close_files() {
  for (const int file : {jsonl_, csv_}) {
    if (file >= 0) close(file);
  }
}

void MetricsFiles::begin_csv(const Row& columns) {
  std::string header = first_line_of_file(csv_path_);
  if (header.empty()) {  // a new file, or one whose header a kill left incomplete
    cut_lines(csv_, csv_path_, 0);
    header = csv_header(columns);
    append_to(csv_, header + "\n", csv_path_);
  }
  columns_ = split(header);  // no name of a column needs quotes
}

void MetricsFiles::add(const Row& row) {
  const off_t jsonl_size = lseek(jsonl_, 0, SEEK_END), csv_size = lseek(csv_, 0, SEEK_END);
  try {
    append_to(jsonl_, to_json(row) + "\n", jsonl_path_);
    append_to(csv_, csv_line(in_columns(row, columns_)) + "\n", csv_path_);
  } catch (...) {  // cut() does the same for a run that continues
    const bool both = ftruncate(jsonl_, jsonl_size) == 0 && ftruncate(csv_, csv_size) == 0;
    static_cast<void>(both);
    throw;
  }
  ++rows_;
}

void MetricsFiles::cut(int64_t rows) {
  rows_ = cut_lines(jsonl_, jsonl_path_, rows);
  cut_lines(csv_, csv_path_, rows_ + 1);  // the first line is the header
}

}  // namespace lathe::train
