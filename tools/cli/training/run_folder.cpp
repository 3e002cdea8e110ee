// The run folder: making it, and the metrics files.
#include "lathe/tools/cli/training/run_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <system_error>

#include <fmt/format.h>

#include "lathe/core/error.h"
#include "lathe/core/file.h"
#include "lathe/tools/cli/exit_codes.h"
#include "lathe/tools/cli/output.h"

namespace lathe::cli {
namespace {

namespace fs = std::filesystem;

void make_folders(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  LATHE_CHECK(FileError, !error, path.string(), ": cannot make the run folder: ", error.message());
}

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

[[noreturn]] void fail_in_use(const std::string& folder, const char* file) {
  throw UsageError(fmt::format("--run-dir: {} already holds a run ({})", folder, file));
}

// If several processes want the same folder, only one of them can make this file.
void claim(const std::string& folder) {
  const std::string path = (fs::path(folder) / kLogFile).string();
  const int descriptor = try_open_new(path);
  if (descriptor < 0 && errno == EEXIST) fail_in_use(folder, kLogFile);
  LATHE_CHECK(FileError, descriptor >= 0, path, ": cannot be made: ", std::strerror(errno));
  close(descriptor);
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
      .add("images_per_second", m.images_per_second);
  if (m.loss_scale > 0) row.add("loss_scale", m.loss_scale).add("skipped_steps", m.skipped_steps);
  return row.add("schema", kMetricsSchema);
}

fs::path make_run_folder(const std::string& requested, const std::string& name,
                         const std::string& date) {
  if (!requested.empty()) {
    const fs::path folder(requested);
    for (const char* file : kRunFiles) {
      std::error_code unreadable;  // making the folder reports the reason
      if (fs::exists(fs::symlink_status(folder / file, unreadable))) fail_in_use(requested, file);
    }
    make_folders(folder);
    claim(requested);
    return folder;
  }
  make_folders("runs");
  for (int n = 1;; ++n) {
    const fs::path folder = fs::path("runs") / fmt::format("{}-{}-{}", name, date, n);
    std::error_code error;
    if (fs::create_directory(folder, error)) return folder;  // only one process gets true
    LATHE_CHECK(FileError, !error || error == std::errc::file_exists, folder.string(),
                ": cannot make the run folder: ", error.message());
  }
}

MetricsFiles::MetricsFiles(const fs::path& folder, bool goes_on)
    : jsonl_path_((folder / "metrics.jsonl").string()),
      csv_path_((folder / "metrics.csv").string()) {
  const auto open = goes_on ? open_to_append : open_new;
  jsonl_ = open(jsonl_path_);
  try {
    csv_ = open(csv_path_);
  } catch (...) {
    close(jsonl_);
    throw;
  }
}

MetricsFiles::~MetricsFiles() {
  close(jsonl_);
  close(csv_);
}

void MetricsFiles::add(const Row& row) {
  const off_t jsonl_size = lseek(jsonl_, 0, SEEK_END), csv_size = lseek(csv_, 0, SEEK_END);
  const std::string header = csv_size == 0 ? csv_header(row) + "\n" : "";
  try {
    write_all(jsonl_, to_json(row) + "\n", jsonl_path_);
    write_all(csv_, header + csv_line(row) + "\n", csv_path_);
  } catch (...) {  // cut() does the same for a run that continues
    const bool both = ftruncate(jsonl_, jsonl_size) == 0 && ftruncate(csv_, csv_size) == 0;
    static_cast<void>(both);
    throw;
  }
  ++rows_;
}

void MetricsFiles::cut(int64_t rows) {
  rows_ = cut_lines(jsonl_, jsonl_path_, rows);
  cut_lines(csv_, csv_path_, rows_ > 0 ? rows_ + 1 : 0);  // the first line is the header
}

std::string today() {
  char text[16];
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  std::strftime(text, sizeof text, "%Y%m%d", localtime_r(&now, &local));
  return text;
}

}  // namespace lathe::cli
