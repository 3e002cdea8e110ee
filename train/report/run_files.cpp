// RunFiles: lenient readers of metrics.jsonl, config.toml, env.json and log.txt.
#include "lathe/train/report/run_files.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>
#include <sstream>

#include "lathe/core/error.h"
#include "lathe/core/files/file.h"
#include "lathe/core/files/paths.h"
#include "lathe/core/json.h"
#include "lathe/core/text/formatted.h"

namespace lathe::report {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr int64_t kMostMetricsBytes = int64_t{1} << 30;  // of metrics.jsonl: three million rows
constexpr size_t kLogLines = 20;
constexpr const char* kReadFiles[] = {"config.toml", "env.json", "metrics.jsonl", "log.txt"};

/// The text of a file of the run. If it cannot be read: "", and a remark.
std::string text_of(RunFiles& run, const char* name) {
  const fs::path path = run.folder / name;
  try {
    if (!is_there(path)) {
      run.remarks.push_back(formatted("{} is missing.", name));
      return "";
    }
    // A pipe or a device would be waited for.
    LATHE_CHECK(FileError, is_file(path), path.string(), ": is no regular file");
    return read_file(path.string(), kMostMetricsBytes);
  } catch (const FileError& e) {
    run.remarks.push_back(formatted("{} cannot be read: {}.", name, e.message()));
    return "";
  }
}

double number(const Json& row, const char* name) {
  const auto at = row.find(name);
  return at != row.end() && at->is_number() ? at->get<double>()
                                            : std::numeric_limits<double>::quiet_NaN();
}

int64_t count(const Json& row, const char* name) {
  const double value = number(row, name);
  return value >= 0 && value < 9e15 ? static_cast<int64_t>(value) : 0;
}

/// A size in bytes; not a number if none can be so large.
double size_in_bytes(const Json& row, const char* name) {
  const double value = number(row, name);
  return value >= 0 && value < 9e15 ? value : std::numeric_limits<double>::quiet_NaN();
}

std::string word(const Json& row, const char* name) {
  const auto at = row.find(name);
  return at != row.end() && at->is_string() ? at->get<std::string>() : "";
}

/// The numbers that have no member of their own.
train::Values metrics_of(const Json& row) {
  constexpr std::string_view kOthers[] = {"epoch", "step",       "loss",          "accuracy",
                                          "lr",    "loss_scale", "skipped_steps", "schema"};
  train::Values out;
  for (const auto& [name, value] : row.items()) {
    if (value.is_number() && !name.starts_with("memory_") && !name.ends_with("_per_second") &&
        std::ranges::find(kOthers, name) == std::end(kOthers))
      out.emplace_back(name, value.get<double>());
  }
  return out;
}

std::array<double, profile::kMemoryTags> memory_of_tag(const Json& row) {
  std::array<double, profile::kMemoryTags> out;
  for (int t = 0; t < profile::kMemoryTags; ++t) {
    const std::string column = train::memory_column(static_cast<profile::MemoryTag>(t));
    out[static_cast<size_t>(t)] = size_in_bytes(row, column.c_str());
  }
  return out;
}

void read_metrics(RunFiles& run) {
  const std::string text = text_of(run, "metrics.jsonl");
  std::istringstream lines(text);
  int64_t number_of_line = 0, bad = 0, first_bad = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number_of_line;
    const Json row = Json::parse(line, nullptr, false);
    if (!row.is_object()) {
      if (bad++ == 0) first_bad = number_of_line;
      continue;
    }
    run.metrics.push_back(
        {.epoch = count(row, "epoch"),
         .step = count(row, "step"),
         .split = word(row, "split"),
         .loss = number(row, "loss"),
         .accuracy = number(row, "accuracy"),
         .lr = number(row, "lr"),
         .images_per_second = number(
             row, row.contains("samples_per_second") ? "samples_per_second" : "images_per_second"),
         .loss_scale = number(row, "loss_scale"),
         .skipped_steps = number(row, "skipped_steps"),
         .of_images = !row.contains("samples_per_second"),
         .metrics = metrics_of(row),
         .memory = size_in_bytes(row, "memory_peak_bytes"),
         .memory_of_tag = memory_of_tag(row),
         .time = word(row, "time")});
  }
  if (bad > 0) {
    run.remarks.push_back(
        formatted("{} of {} lines of metrics.jsonl cannot be read, the first of them line {}.", bad,
                  number_of_line, first_bad));
  }
  if (!text.empty() && text.back() != '\n')
    run.remarks.push_back("The last line of metrics.jsonl is still being written, or was cut off.");
}

void read_settings(RunFiles& run, const ReadSettings& settings) {
  const std::string text = text_of(run, "config.toml");
  try {
    run.config = settings(text);
  } catch (const Error& e) {
    run.remarks.push_back(formatted("{}.", e.message()));
  } catch (const std::exception& e) {
    run.remarks.push_back(formatted("{}.", e.what()));
  }
}

void read_environment(RunFiles& run, bool must_be_there) {
  if (!must_be_there && path_kind(run.folder / "env.json") == PathKind::kNothing) return;
  const std::string text = text_of(run, "env.json");
  if (text.empty()) return;
  const Json values = Json::parse(text, nullptr, false);
  if (!values.is_object()) {
    run.remarks.push_back("env.json holds no JSON object.");
    return;
  }
  for (const auto& [name, value] : values.items())
    run.environment.emplace_back(name, value.is_string() ? value.get<std::string>() : value.dump());
}

void read_log(RunFiles& run) {
  std::istringstream lines(text_of(run, "log.txt"));
  for (std::string line; std::getline(lines, line);) run.last_lines.push_back(std::move(line));
  const size_t surplus = run.last_lines.size() - std::min(run.last_lines.size(), kLogLines);
  run.last_lines.erase(run.last_lines.begin(),
                       run.last_lines.begin() + static_cast<std::ptrdiff_t>(surplus));
}

void read_op_table(RunFiles& run) {
  if (path_kind(run.folder / "op_table.txt") != PathKind::kNothing)
    run.op_table = text_of(run, "op_table.txt");
}

}  // namespace

std::string RunFiles::setting(const std::string& key) const {
  const auto at = std::ranges::find(config, key, &std::pair<std::string, std::string>::first);
  return at == config.end() ? "" : at->second;
}

const MetricsPoint* RunFiles::best(const std::string& split) const {
  const MetricsPoint* found = nullptr;
  for (const MetricsPoint& point : metrics) {
    if (point.split == split && !std::isnan(point.accuracy) &&
        (found == nullptr || point.accuracy > found->accuracy))
      found = &point;
  }
  return found;
}

const MetricsPoint* RunFiles::largest() const {
  const MetricsPoint* found = nullptr;
  for (const MetricsPoint& point : metrics) {
    if (point.memory > 0 && (found == nullptr || point.memory > found->memory)) found = &point;
  }
  return found;
}

std::string RunFiles::name() const {
  std::error_code error;
  const fs::path whole = fs::weakly_canonical(folder, error);
  const std::string last = (error ? folder : whole).filename().string();
  return last.empty() ? folder.string() : last;
}

RunFiles read_run_files(const fs::path& folder, const ReadSettings& settings) {
  LATHE_CHECK(FileError, is_there(folder), folder.string(), ": there is no such folder");
  LATHE_CHECK(FileError, is_folder(folder), folder.string(), ": is no folder");
  const bool any = std::ranges::any_of(
      kReadFiles, [&](const char* name) { return path_kind(folder / name) != PathKind::kNothing; });
  LATHE_CHECK(DataError, any || !names_in(folder).empty(), folder.string(),
              ": is an empty folder, and no run");
  LATHE_CHECK(DataError, any, folder.string(),
              ": holds no run (none of config.toml, env.json, metrics.jsonl, log.txt)");
  RunFiles run;
  run.folder = folder;
  read_metrics(run);
  if (settings) read_settings(run, settings);
  read_environment(run, settings != nullptr);
  read_log(run);
  read_op_table(run);
  return run;
}

}  // namespace lathe::report
