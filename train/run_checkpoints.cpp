// The order of checkpoints, and what is removed or set aside. Contract: run_checkpoints.h.
#include "lathe/train/run_checkpoints.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "lathe/core/error.h"
#include "lathe/core/files/file.h"
#include "lathe/core/files/paths.h"
#include "lathe/core/files/temporary_files.h"
#include "lathe/core/formats/safetensors_header.h"
#include "lathe/core/text/count_text.h"
#include "lathe/core/text/formatted.h"
#include "lathe/train/checkpoint_writer.h"
#include "lathe/train/run_folder.h"

namespace lathe::train {
namespace {

namespace fs = std::filesystem;

// The step at which a checkpoint was made; -1 if the file does not say.
int64_t step_in(const safetensors::Metadata& metadata) {
  const auto found = metadata.find("lathe.step");
  const std::string text = found == metadata.end() ? "" : found->second;
  int64_t step = -1;
  const char* const end = text.data() + text.size();
  const auto [rest, fault] = std::from_chars(text.data(), end, step);
  return fault == std::errc() && rest == end ? step : -1;
}

// The same; -1 also for a file that is damaged.
int64_t step_of(const fs::path& file) {
  try {
    return step_in(read_checkpoint(file.string()).metadata);
  } catch (const DataError&) {
    return -1;
  }
}

/// A checkpoint as its name or its header describes it; the rest of the file was not read yet.
struct Candidate {
  fs::path file;
  int64_t step;
  int rank = 0;  // compared before the step: -1 for a last that went back, 1 for an inexact best
};

// The checkpoints of a folder in the order in which a run tries them. Warns of files without a
// readable header.   → also whether there is any such file at all
std::pair<std::vector<Candidate>, bool> candidates_in(const fs::path& folder, const Warn& warn) {
  std::vector<Candidate> found;
  bool any = false;
  const auto look_at = [&](const char* name, bool is_best) {
    const fs::path file = folder / name;
    if (!is_there(file)) return;
    any = true;
    try {
      const safetensors::Metadata metadata = safetensors::read_metadata(file.string());
      const bool went_back = !is_best && metadata.contains(kWentBackKey);
      // Averaged weights, for example, do not continue bit by bit.
      const bool inexact = is_best && metadata.contains(kInexactKey);
      found.push_back({file, step_in(metadata), inexact ? 1 : went_back ? -1 : 0});
    } catch (const Error& e) {
      warn(e.message());
    }
  };
  look_at("last.safetensors", false);  // so that it comes first among files of one step
  for (const int64_t step : steps_in(folder)) found.push_back({folder / step_file(step), step});
  look_at("best.safetensors", true);
  std::ranges::stable_sort(found, [](const Candidate& a, const Candidate& b) {
    return a.rank != b.rank ? a.rank < b.rank : a.step > b.step;
  });
  return {found, any || !found.empty()};
}

// The complete lines of a file; 0 if it is not there.
int64_t lines_of(const fs::path& file) {
  if (!is_there(file)) return 0;
  const std::string text = read_file(file.string(), INT64_MAX);
  return std::ranges::count(text, '\n');
}

fs::path metrics_before(const fs::path& folder, int number, const char* ending) {
  return folder / formatted("metrics-before-{}.{}", number, ending);
}

}  // namespace

bool holds_run(const fs::path& folder) {
  if (!is_folder(folder)) return false;
  for (const char* name :
       {"log.txt", "metrics.jsonl", "metrics.csv", "last.safetensors", "best.safetensors"}) {
    if (is_there(folder / name)) return true;
  }
  return !steps_in(folder).empty();
}

std::optional<FoundCheckpoint> newest_checkpoint(const fs::path& folder, const Warn& warn) {
  const auto [candidates, any] = candidates_in(folder, warn);
  for (const Candidate& candidate : candidates) {
    try {
      return FoundCheckpoint{candidate.file, read_checkpoint(candidate.file.string())};
    } catch (const DataError& e) {
      warn(e.message());
    } catch (const FileError& e) {
      warn(e.message());
    }
  }
  if (!any) return std::nullopt;
  LATHE_FAIL(DataError, "none of the checkpoints in ", folder.string(), " can be read");
}

void clean_run_folder(const fs::path& folder, int64_t step) {
  for (const int64_t later : steps_in(folder)) {
    if (later > step) remove_path(folder / step_file(later));
  }
  const fs::path best = folder / "best.safetensors";
  if (is_there(best) && step_of(best) > step) remove_path(best);
  sweep_temporary_files(folder);
}

void set_metrics_aside(const fs::path& folder, const Warn& warn) {
  const fs::path jsonl = folder / "metrics.jsonl", csv = folder / "metrics.csv";
  const int64_t rows = std::max(lines_of(jsonl), lines_of(csv) - 1);  // a header
  if (rows <= 0) {
    remove_path(jsonl);
    return remove_path(csv);
  }
  const auto is_taken = [&](int n) {
    return path_kind(metrics_before(folder, n, "jsonl")) != PathKind::kNothing ||
           path_kind(metrics_before(folder, n, "csv")) != PathKind::kNothing;
  };
  int number = 1;
  while (is_taken(number)) ++number;
  for (const auto& [file, ending] : {std::pair(jsonl, "jsonl"), std::pair(csv, "csv")}) {
    if (!is_there(file)) continue;
    const fs::path kept = metrics_before(folder, number, ending);
    std::error_code reason;
    fs::rename(file, kept, reason);
    LATHE_CHECK(FileError, !reason, file.string(), ": cannot be renamed to ", kept.string(), ": ",
                reason.message());
  }
  warn(formatted(
      "{} holds no checkpoint, so the run begins again; the {} of metrics so far {} kept in {}",
      folder.string(), count_text(rows, "row"), rows == 1 ? "is" : "are",
      metrics_before(folder, number, "jsonl").filename().string()));
}

namespace {

std::optional<double> value_of_best(const fs::path& folder, std::string_view monitor) {
  const fs::path best = folder / "best.safetensors";
  if (!is_there(best)) return std::nullopt;
  try {
    const Checkpoint checkpoint = read_checkpoint(best.string());
    return checkpoint_section(checkpoint, "trainer").number<double>(concat("last_", monitor));
  } catch (const FileError&) {
    throw;
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

std::optional<double> go_back(const fs::path& folder, const fs::path& file, const Checkpoint& from,
                              int64_t step, int64_t keep, std::string_view monitor) {
  const fs::path last = folder / "last.safetensors";
  if (file.lexically_normal() != last.lexically_normal())
    safetensors::write(last.string(), from.tensors, from.metadata);
  clean_run_folder(folder, step);
  keep_newest(folder, step, keep, from);
  return value_of_best(folder, monitor);
}

}  // namespace lathe::train
