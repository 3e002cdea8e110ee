// The run folder: making it, and the metrics files.
#include "lathe/tools/cli/training/run_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <system_error>

#include "lathe/core/error.h"
#include "lathe/core/file.h"
#include "lathe/core/paths.h"
#include "lathe/tools/cli/exit_codes.h"
#include "lathe/tools/cli/formatted.h"
#include "lathe/tools/cli/output.h"
#include "lathe/tools/cli/parse_value.h"
#include "lathe/tools/cli/shell_word.h"
#include "lathe/tools/cli/training/run_memory.h"

namespace lathe::cli {
namespace {

namespace fs = std::filesystem;

// Opens a file.   → a descriptor, or -1 with errno
int try_open_new(const std::string& path) {
  return open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
}

int open_new(const std::string& path) {
  const int descriptor = try_open_new(path);
  LATHE_CHECK(FileError, descriptor >= 0, path, ": cannot be made: ", std::strerror(errno));
  return descriptor;
}

constexpr char kLogFile[] = "log.txt";
constexpr const char* kRunFiles[] = {"config.toml",     "env.json",    kLogFile,
                                     "metrics.jsonl",   "metrics.csv", "last.safetensors",
                                     "best.safetensors"};

bool has_checkpoint(const std::string& folder) {
  return std::ranges::any_of(
      names_in(folder), [](const std::string& name) { return name.ends_with(".safetensors"); });
}

[[noreturn]] void fail_in_use(const std::string& folder, const char* file) {
  throw UsageError(formatted("--run-dir: {} already holds a run ({}){}", folder, file,
                             has_checkpoint(folder)
                                 ? formatted("; --resume {} goes on with it", shell_word(folder))
                                 : " that saved no checkpoint; choose another folder"));
}

// If several processes want the same folder, which holds no run yet, only one of them can make this
// file.
void claim(const std::string& folder) {
  const std::string path = (fs::path(folder) / kLogFile).string();
  const int descriptor = try_open_new(path);
  if (descriptor < 0 && errno == EEXIST)
    throw UsageError(formatted("--run-dir: another process has just begun a run in {}", folder));
  LATHE_CHECK(FileError, descriptor >= 0, path, ": cannot be made: ", std::strerror(errno));
  close(descriptor);
}

constexpr const char* kMetrics[] = {"metrics.jsonl", "metrics.csv"};

/// Which file it is, whatever its name; "" if there is none.
std::string identity_of(const fs::path& file) {
  if (path_kind(file) == PathKind::kNothing) return "";
  struct stat info {};
  const bool known = stat(file.c_str(), &info) == 0;
  LATHE_CHECK(FileError, known, file.string(), ": ", std::strerror(errno));
  return formatted("{} {}", info.st_dev, info.st_ino);
}

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

}  // namespace

Row metrics_row(const Metrics& m) {
  Row row;
  row.add("epoch", m.epoch)
      .add("step", m.step)
      .add("split", m.split)
      .add("loss", m.loss)
      .add("accuracy", m.accuracy)
      .add("lr", m.lr)
      .add("images_per_second", m.images_per_second)
      .add("time", m.time);
  add_memory(row, m.memory).add("memory_reserved_bytes", m.memory.reserved);
  if (m.loss_scale > 0) row.add("loss_scale", m.loss_scale).add("skipped_steps", m.skipped_steps);
  return row.add("schema", kMetricsSchema);
}

fs::path make_run_folder(const std::string& requested, const std::string& name,
                         const std::string& date) {
  if (!requested.empty()) {
    const fs::path folder(requested);
    for (const char* file : kRunFiles) {
      if (path_kind(folder / file) != PathKind::kNothing) fail_in_use(requested, file);
    }
    make_folders(folder);
    claim(requested);
    return folder;
  }
  make_folders(kUsualRuns);
  for (int n = 1;; ++n) {
    const fs::path folder = fs::path(kUsualRuns) / formatted("{}-{}-{}", name, date, n);
    std::error_code error;
    if (fs::create_directory(folder, error)) return folder;  // only one process gets true
    LATHE_CHECK(FileError, !error || error == std::errc::file_exists, folder.string(),
                ": cannot make the run folder: ", error.message());
  }
}

RunFilesCheck::RunFilesCheck(fs::path folder) : folder_(std::move(folder)) {
  for (const char* name : kMetrics) metrics_.push_back(identity_of(folder_ / name));
}

void RunFilesCheck::check(bool has_best) const {
  std::vector<std::string> gone;
  for (size_t i = 0; i < std::size(kMetrics); ++i) {
    if (identity_of(folder_ / kMetrics[i]) != metrics_[i]) gone.push_back(kMetrics[i]);
  }
  for (const char* name : {"config.toml", "env.json", kLogFile, "last.safetensors"}) {
    if (path_kind(folder_ / name) == PathKind::kNothing) gone.push_back(name);
  }
  if (has_best && path_kind(folder_ / "best.safetensors") == PathKind::kNothing)
    gone.push_back("best.safetensors");
  if (gone.empty()) return;
  throw CommandError(ExitCode::kError,
                     formatted("{}: {} {} removed while the training went on", folder_.string(),
                               joined(gone, ", "), gone.size() == 1 ? "was" : "were"));
}

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
    write_all(csv_, header + "\n", csv_path_);
  }
  columns_ = split_list(header);  // no name of a column needs quotes
}

void MetricsFiles::add(const Row& row) {
  const off_t jsonl_size = lseek(jsonl_, 0, SEEK_END), csv_size = lseek(csv_, 0, SEEK_END);
  try {
    write_all(jsonl_, to_json(row) + "\n", jsonl_path_);
    write_all(csv_, csv_line(in_columns(row, columns_)) + "\n", csv_path_);
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

std::string time_text(std::chrono::system_clock::time_point time) {
  using std::chrono::floor, std::chrono::milliseconds, std::chrono::seconds;
  const auto whole = floor<seconds>(time);
  const std::time_t since_1970 = std::chrono::system_clock::to_time_t(whole);
  std::tm utc{};
  char text[32];
  std::strftime(text, sizeof text, "%FT%T", gmtime_r(&since_1970, &utc));
  return formatted("{}.{:03}Z", text, floor<milliseconds>(time - whole).count());
}

std::string today() {
  char text[16];
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  std::strftime(text, sizeof text, "%Y%m%d", localtime_r(&now, &local));
  return text;
}

}  // namespace lathe::cli
