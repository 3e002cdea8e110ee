// The run folder: making it, and what must still be there at the end.
#include "lathe/tools/cli/training/run_folder.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <system_error>

#include "lathe/core/error.h"
#include "lathe/core/files/paths.h"
#include "lathe/core/text/formatted.h"
#include "lathe/tools/cli/exit_codes.h"
#include "lathe/tools/cli/shell_word.h"
#include "lathe/train/run_lock.h"
#include "lathe/train/trainer.h"

namespace lathe::cli {
namespace {

namespace fs = std::filesystem;

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

constexpr const char* kMetrics[] = {"metrics.jsonl", "metrics.csv"};

/// Which file it is, whatever its name; "" if there is none.
std::string identity_of(const fs::path& file) {
  if (path_kind(file) == PathKind::kNothing) return "";
  struct stat info {};
  const bool known = stat(file.c_str(), &info) == 0;
  LATHE_CHECK(FileError, known, file.string(), ": ", std::strerror(errno));
  return formatted("{} {}", info.st_dev, info.st_ino);
}

}  // namespace

fs::path make_run_folder(const std::string& requested, const std::string& name,
                         const std::string& date) {
  if (!requested.empty()) {
    const fs::path folder(requested);
    for (const char* file : kRunFiles) {
      if (path_kind(folder / file) != PathKind::kNothing) fail_in_use(requested, file);
    }
    try {
      train::claim_run_folder(folder);
    } catch (const LockHeldError& e) {
      throw UsageError(formatted("--run-dir: {}", e.message()));
    }
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

void RunFilesCheck::on_start(train::Trainer& trainer) {
  folder_ = trainer.folder();
  metrics_.clear();
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

std::string today() {
  char text[16];
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  std::strftime(text, sizeof text, "%Y%m%d", localtime_r(&now, &local));
  return text;
}

}  // namespace lathe::cli
