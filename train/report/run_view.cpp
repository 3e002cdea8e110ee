// run_view(): the lines, and where they know from whether the run goes on.
#include "lathe/train/report/run_view.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <fstream>
#include <functional>
#include <utility>

#include "lathe/core/format.h"
#include "lathe/core/printable.h"
#include "lathe/core/text/formatted.h"
#include "lathe/core/text/wrapping.h"
#include "lathe/train/progress.h"

namespace lathe::report {
namespace {

constexpr int kUnknownWidth = 100;

const MetricsPoint* newest(const RunFiles& run, std::string_view split) {
  for (auto at = run.metrics.rbegin(); at != run.metrics.rend(); ++at) {
    if (at->split == split) return &*at;
  }
  return nullptr;
}

/// The moment of "2026-01-31T23:59:59.125Z" in seconds since 1970.
std::optional<double> seconds_of(const std::string& time) {
  std::tm utc{};
  const char* const rest = strptime(time.c_str(), "%Y-%m-%dT%H:%M:%S", &utc);
  if (!rest || rest[0] != '.') return std::nullopt;
  return static_cast<double>(timegm(&utc)) + std::strtod(rest, nullptr);
}

/// The line of /proc/locks for an exclusive flock() of this file ends so: "08:02:1234 0 EOF".
bool is_locked(const std::filesystem::path& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return false;
  const std::string file = formatted(" {:02x}:{:02x}:{} ", major(info.st_dev), minor(info.st_dev),
                                     static_cast<uint64_t>(info.st_ino));
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    if (line.find("FLOCK") != std::string::npos && line.find(file) != std::string::npos)
      return true;
  }
  return false;
}

/// The time from the first row to the newest.
std::optional<double> duration(const RunFiles& run) {
  if (run.metrics.size() < 2) return std::nullopt;
  const auto first = seconds_of(run.metrics.front().time),
             last = seconds_of(run.metrics.back().time);
  if (!first || !last || *last <= *first) return std::nullopt;
  return *last - *first;
}

std::string training_line(const RunFiles& run, const MetricsPoint& row) {
  std::string text =
      formatted("epoch {}/{}  step {}  loss {:.4g}  acc {:.1f} %  lr {:.3g}", row.epoch,
                run.setting("epochs"), row.step, row.loss, 100 * row.accuracy, row.lr);
  if (std::isfinite(row.images_per_second))
    text += formatted("  {} {}/s", train::rate_text(row.images_per_second),
                      row.of_images ? "img" : "samples");
  const auto part = part_done(run);
  const auto took = duration(run);
  if (part && took && *part > 0 && *part < 1) {
    // The first row has been made at a part of its own.
    const double before = static_cast<double>(run.metrics.front().step) /
                          static_cast<double>(std::max<int64_t>(run.metrics.back().step, 1)) *
                          *part;
    if (*part > before)
      text += "  ETA " + train::duration_text(*took * (1 - *part) / (*part - before));
  }
  return text;
}

std::string evaluation_line(const RunFiles& run) {
  const MetricsPoint* const last = newest(run, "val");
  if (!last) return "";
  const MetricsPoint* const best = run.best("val");
  std::string text =
      formatted("evaluation {:.2f} %, loss {:.4g}", 100 * last->accuracy, last->loss);
  if (best) text += formatted("; best {:.2f} % in epoch {}", 100 * best->accuracy, best->epoch);
  if (const MetricsPoint* test = newest(run, "test"))
    text += formatted("; test {:.2f} %", 100 * test->accuracy);
  return text;
}

std::string memory_line(const RunFiles& run) {
  const MetricsPoint* const row = run.largest();
  if (!row) return "";
  const auto size = [](double bytes) { return readable_bytes(static_cast<uint64_t>(bytes)); };
  std::string text = formatted("memory at the peak {}", size(row->memory));
  std::vector<std::pair<double, std::string_view>> tags;
  for (int t = 0; t < profile::kMemoryTags; ++t) {
    const double bytes = row->memory_of_tag[static_cast<size_t>(t)];
    if (bytes > 0) tags.emplace_back(bytes, profile::name_of(static_cast<profile::MemoryTag>(t)));
  }
  std::ranges::stable_sort(tags, std::greater(), &std::pair<double, std::string_view>::first);
  tags.resize(std::min<size_t>(tags.size(), 3));
  for (const auto& [bytes, name] : tags) text += formatted(", {} {}", name, size(bytes));
  return text;
}

/// The training losses as blocks of eight heights, one per column.
std::string blocks(const RunFiles& run, int width) {
  std::vector<double> losses;
  for (const MetricsPoint& p : run.metrics) {
    if (p.split == "train" && std::isfinite(p.loss)) losses.push_back(p.loss);
  }
  const auto columns = std::min(static_cast<size_t>(std::max(width - 3, 1)), losses.size());
  if (columns < 2) return "";
  std::vector<double> means;
  for (size_t c = 0; c < columns; ++c) {  // of the losses of a column
    const size_t begin = c * losses.size() / columns, end = (c + 1) * losses.size() / columns;
    double sum = 0;
    for (size_t i = begin; i < end; ++i) sum += losses[i];
    means.push_back(sum / static_cast<double>(end - begin));
  }
  const auto [low, high] = std::ranges::minmax(means);
  std::string text;
  for (const double mean : means) {
    const double part = high > low ? (mean - low) / (high - low) : 0;
    const int height = static_cast<int>(std::lround(part * 7));
    text += "\xe2\x96";  // U+2581 to U+2588
    text += static_cast<char>(0x81 + height);
  }
  return text;
}

}  // namespace

RunActivity activity_of(const RunFiles& run) {
  RunActivity out{.training = is_locked(run.folder)};
  if (run.metrics.empty()) return out;
  const auto then = seconds_of(run.metrics.back().time);
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  if (then) out.seconds_since_row = std::max(now.count() - *then, 0.0);
  return out;
}

std::optional<double> part_done(const RunFiles& run) {
  const std::string epochs = run.setting("epochs");
  const double all = std::strtod(epochs.c_str(), nullptr);
  if (run.metrics.empty() || !(all >= 1)) return std::nullopt;
  for (const MetricsPoint& p : run.metrics) {
    if (p.split != "val" || p.epoch < 1 || p.step < 1) continue;
    const double per_epoch = static_cast<double>(p.step) / static_cast<double>(p.epoch);
    return std::min(static_cast<double>(run.metrics.back().step) / (per_epoch * all), 1.0);
  }
  return std::nullopt;
}

std::vector<std::string> run_view(const RunFiles& run, const RunActivity& activity, int width,
                                  bool plain) {
  std::string state = activity.training ? "training" : "no process on this machine is training it";
  if (activity.seconds_since_row)
    state += formatted(", last row {} ago", train::duration_text(*activity.seconds_since_row));
  std::vector<std::string> lines;
  const auto add_line = [&](const std::string& text) {
    const std::string broken = wrapped(text, width > 0 ? width - 1 : 0);
    for (size_t begin = 0, end = 0; end != broken.npos; begin = end + 1) {
      end = broken.find('\n', begin);
      lines.push_back(broken.substr(begin, end - begin));
    }
  };
  const auto add = [&](const std::string& text) {
    if (!text.empty()) add_line("  " + text);
  };
  add_line(printable(formatted("{}  {} on {}: {}", run.folder.string(), run.setting("model"),
                               run.setting("dataset"), state)));
  if (const MetricsPoint* row = newest(run, "train")) {
    add(training_line(run, *row));
  } else {
    add(run.last_lines.empty() ? "nothing yet" : printable(run.last_lines.back()));
  }
  add(evaluation_line(run));
  for (const std::string& remark : run.remarks) add(printable(remark));
  add(memory_line(run));
  const int columns = width > 0 ? width : kUnknownWidth;
  if (const std::string picture = plain ? "" : blocks(run, columns); !picture.empty())
    lines.push_back("  " + picture);
  return lines;
}

}  // namespace lathe::report
